// SPDX-License-Identifier: Apache-2.0
//
// The only file that uses spdlog, header-only: users of our libraries need no spdlog library, and
// none of its global state (registry of loggers, default logger) is created in the host process.
#include "common/log/log.h"

#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY
#endif
#ifndef SPDLOG_HEADER_ONLY
#define SPDLOG_HEADER_ONLY
#endif
#include <errno.h>
#include <signal.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>

#include "common/log/audit_line.h"
#include "common/process/blocked_signal.h"
#include "common/process/own_environment.h"

namespace jobscope {
namespace {

// Writes each line with one write(2), bypassing stdio: lines stay whole even when others write to
// stderr, and no buffer exists that a fork would copy.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const char* next = line.data();
    size_t left = line.size();
    // A job that never writes to its stderr must not die of SIGPIPE because our log line found the
    // reader gone.
    BlockedSignal blocked(SIGPIPE);
    while (left > 0) {
      const ssize_t written = write(STDERR_FILENO, next, left);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && errno == EPIPE) blocked.Raised();
      if (written <= 0) return;  // stderr is closed or full: the error cannot be reported
      next += written;
      left -= static_cast<size_t>(written);
    }
  }
  void flush_() override {}
};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

LogLevel FromSpdlog(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return LogLevel::kDebug;
    case spdlog::level::info:
      return LogLevel::kInfo;
    case spdlog::level::warn:
      return LogLevel::kWarning;
    case spdlog::level::err:
    case spdlog::level::critical:
      return LogLevel::kError;
    default:
      return LogLevel::kOff;
  }
}

LogLevel LevelFromEnvironment() {
  const std::string text = OwnVariable("JOBSCOPE_LOG_LEVEL").value_or("");
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "error") return LogLevel::kError;
  if (text == "off") return LogLevel::kOff;
  return LogLevel::kWarning;
}

// Leaked: our threads may log while the process destroys its static objects.
spdlog::logger* MakeLogger(const char* pattern, spdlog::level::level_enum level) {
  auto* made = new spdlog::logger("jobscope", std::make_shared<StderrSink>());
  made->set_pattern(pattern);
  made->set_level(level);
  return made;
}

spdlog::logger* Logger() {
  static spdlog::logger* const logger =
      MakeLogger("%Y-%m-%dT%H:%M:%S.%e jobscope[%P] %l: %v", ToSpdlog(LevelFromEnvironment()));
  return logger;
}

spdlog::logger* AuditLogger() {
  static spdlog::logger* const logger =
      MakeLogger("%Y-%m-%dT%H:%M:%S.%e jobscope[%P] audit: %v", spdlog::level::warn);
  return logger;
}

// One line.
std::string WithoutBreaks(std::string_view message) {
  std::string line(message);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return line;
}

}  // namespace

void SetLogLevel(LogLevel level) { Logger()->set_level(ToSpdlog(level)); }

LogLevel GetLogLevel() { return FromSpdlog(Logger()->level()); }

void Log(LogLevel level, std::string_view message) {
  spdlog::logger* const logger = Logger();
  const spdlog::level::level_enum spdlog_level = ToSpdlog(level);
  if (level == LogLevel::kOff || !logger->should_log(spdlog_level)) return;
  const std::string line = WithoutBreaks(message);
  logger->log(spdlog_level, spdlog::string_view_t(line.data(), line.size()));
}

void LogAudit(std::string_view line) {
  if (!Logger()->should_log(spdlog::level::warn)) return;
  const std::string text = WithoutBreaks(line);
  AuditLogger()->log(spdlog::level::warn, spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace jobscope
