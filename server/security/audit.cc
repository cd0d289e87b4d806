// SPDX-License-Identifier: Apache-2.0
#include "server/security/audit.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/log/log.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {
constexpr size_t kMaxTextBytes = 200;
}  // namespace

std::string AuditLine(const AuditRecord& record) {
  std::string line =
      absl::StrCat("request ", record.method, " from ", Printable(record.peer, kMaxTextBytes));
  if (!record.description.empty()) {
    absl::StrAppend(&line, " (", Printable(record.description, kMaxTextBytes), ")");
  }
  absl::StrAppendFormat(&line, " took %.3f s: ", absl::ToDoubleSeconds(record.took));
  if (record.status.ok()) {
    absl::StrAppend(&line, "OK");
  } else {
    absl::StrAppend(&line, absl::StatusCodeToString(record.status.code()), ", ",
                    Printable(record.status.message(), kMaxTextBytes));
  }
  if (!record.outcome.empty())
    absl::StrAppend(&line, ", ", Printable(record.outcome, kMaxTextBytes));
  return line;
}

void Audit(const AuditRecord& record) {
  if (GetLogLevel() > LogLevel::kInfo) return;
  Log(LogLevel::kInfo, AuditLine(record));
}

}  // namespace jobscope
