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
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/sink.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/log/audit_line.h"
#include "common/process/blocked_signal.h"
#include "common/process/own_environment.h"
#include "common/text/foreign_text.h"
#include "common/text/utc_text.h"

namespace jobscope {
namespace {

// Writes a line to stderr without stdio: no buffer exists that a fork would copy. Returns false if
// stderr is closed or full, and the line, or its end, is lost.
//
// poll() reports a full pipe or a stopped terminal: a write would block this thread, which serves
// callers, until somebody reads. O_NONBLOCK is not an option: the job shares the setting. A
// regular file always polls as writable, so a file system that hangs blocks the writing thread, as
// does a pipe that the job fills between poll() and write().
bool WriteToStderr(const char* next, size_t left) {
  // A job that never writes to its stderr must not die of SIGPIPE because our log line found the
  // reader gone.
  BlockedSignal blocked(SIGPIPE);
  while (left > 0) {
    pollfd stderr_state = {STDERR_FILENO, POLLOUT, 0};
    if (poll(&stderr_state, 1, 0) <= 0) return false;
    // A pipe that is not full takes PIPE_BUF bytes without blocking, and in one piece.
    const ssize_t written = write(STDERR_FILENO, next, std::min<size_t>(left, PIPE_BUF));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) blocked.Raised();
    if (written <= 0) return false;
    next += written;
    left -= static_cast<size_t>(written);
  }
  return true;
}

// Drops the lines that stderr does not take at once; the next line that it takes says how many.
// Holds no lock during a write, so a write that hangs blocks only its own thread. A line of up to
// PIPE_BUF bytes is one write(2) and stays whole.
class StderrSink final : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    char time[kUtcTextBytes];
    FormatUtc(
        std::chrono::floor<std::chrono::milliseconds>(message.time.time_since_epoch()).count(),
        time);
    line.append(time, time + strlen(time));
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      formatter_->format(message, line);
    }
    const uint64_t dropped = dropped_.exchange(0, std::memory_order_relaxed);
    if (dropped > 0) {
      line.resize(line.size() - 1);  // the line break
      const std::string note =
          " [" + std::to_string(dropped) + " earlier lines dropped: nobody read stderr]\n";
      line.append(note.data(), note.data() + note.size());
    }
    if (WriteToStderr(line.data(), line.size())) return;
    dropped_.fetch_add(dropped + 1, std::memory_order_relaxed);
  }
  void flush() override {}
  void set_pattern(const std::string& pattern) override {
    set_formatter(std::make_unique<spdlog::pattern_formatter>(pattern));
  }
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    formatter_ = std::move(formatter);
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<spdlog::formatter> formatter_;  // guarded by `mutex_`
  std::atomic<uint64_t> dropped_{0};              // since the last line that was written
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
  const std::string text = absl::AsciiStrToLower(OwnVariable("JOBSCOPE_LOG_LEVEL").value_or(""));
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "error") return LogLevel::kError;
  if (text == "off") return LogLevel::kOff;
  return LogLevel::kWarning;
}

// `pattern`: of what follows the time. spdlog would format it by localtime_r() (utc_text.h).
// Leaked: our threads may log while the process destroys its static objects.
spdlog::logger* MakeLogger(const char* pattern, spdlog::level::level_enum level) {
  auto* made = new spdlog::logger("jobscope", std::make_shared<StderrSink>());
  made->set_pattern(pattern);
  made->set_level(level);
  return made;
}

spdlog::logger* Logger() {
  static spdlog::logger* const logger =
      MakeLogger(" jobscope[%P] %l: %v", ToSpdlog(LevelFromEnvironment()));
  return logger;
}

spdlog::logger* AuditLogger() {
  static spdlog::logger* const logger = MakeLogger(" jobscope[%P] audit: %v", spdlog::level::warn);
  return logger;
}

// Callers choose parts of messages, such as the id of a session: these must neither begin a line of
// their own nor control the terminal that shows the log.
std::string Harmless(std::string_view message) { return OneLine(message, message.size()); }

}  // namespace

void SetLogLevel(LogLevel level) { Logger()->set_level(ToSpdlog(level)); }

LogLevel GetLogLevel() { return FromSpdlog(Logger()->level()); }

void Log(LogLevel level, std::string_view message) {
  try {
    spdlog::logger* const logger = Logger();
    const spdlog::level::level_enum spdlog_level = ToSpdlog(level);
    if (level == LogLevel::kOff || !logger->should_log(spdlog_level)) return;
    const std::string line = Harmless(message);
    logger->log(spdlog_level, spdlog::string_view_t(line.data(), line.size()));
  } catch (const std::exception&) {
    // No memory: the line is dropped.
  }
}

void LogAudit(std::string_view line) {
  try {
    if (!Logger()->should_log(spdlog::level::warn)) return;
    const std::string text = Harmless(line);
    AuditLogger()->log(spdlog::level::warn, spdlog::string_view_t(text.data(), text.size()));
  } catch (const std::exception&) {
    // No memory: the line is dropped.
  }
}

}  // namespace jobscope
