// SPDX-License-Identifier: Apache-2.0
//
// Lines of the audit log: who asked what of this process.
#ifndef COMMON_LOG_AUDIT_LINE_H_
#define COMMON_LOG_AUDIT_LINE_H_

#include <string_view>

namespace jobscope {

// Writes one line to stderr, as Log does, marked "audit" instead of with a level. Shown at the
// default log level; not if the level is kError or kOff. Does not throw. Thread-safe.
void LogAudit(std::string_view line);

}  // namespace jobscope

#endif  // COMMON_LOG_AUDIT_LINE_H_
