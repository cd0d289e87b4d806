// SPDX-License-Identifier: Apache-2.0
//
// Writes one log line per request: who, what, how long, outcome. At info level, through
// common/log/log.
#ifndef SERVER_SECURITY_AUDIT_H_
#define SERVER_SECURITY_AUDIT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace jobscope {

struct AuditRecord {
  absl::string_view method;  // "tensorflow.ProfilerService/Profile"
  absl::string_view peer;
  absl::string_view description;  // what was requested
  absl::Duration took;
  absl::Status status;
  absl::string_view outcome;  // what was delivered
};

// Formats the line. Makes foreign text printable; the line has at most a few hundred bytes.
std::string AuditLine(const AuditRecord& record);

// Logs the line. Costs nothing while the log level is above info.
void Audit(const AuditRecord& record);

}  // namespace jobscope

#endif  // SERVER_SECURITY_AUDIT_H_
