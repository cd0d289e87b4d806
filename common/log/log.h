// SPDX-License-Identifier: Apache-2.0
//
// Logs to stderr, one line per message, through spdlog. Never used on the recording path.
#ifndef COMMON_LOG_LOG_H_
#define COMMON_LOG_LOG_H_

#include <string_view>

namespace jobscope {

enum class LogLevel { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kOff = 4 };

// Sets the log level. The default is kWarning in a worker; JOBSCOPE_LOG_LEVEL (debug, info,
// warning, error, off) sets it at the first use.
void SetLogLevel(LogLevel level);
LogLevel GetLogLevel();

// Writes one log line. `message` may quote texts of callers: control characters, such as line
// breaks and escapes for terminals, become spaces (OneLine). Does not throw: drops the line if
// memory runs out. Thread-safe.
void Log(LogLevel level, std::string_view message);

}  // namespace jobscope

#endif  // COMMON_LOG_LOG_H_
