// SPDX-License-Identifier: Apache-2.0
#include "server/security/audit.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/log/audit_line.h"
#include "common/log/log.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

constexpr size_t kMaxTextBytes = 300;

struct Rate {
  double burst_lines;
  double lines_per_second;
};

// In the order of AuditKind. A fan-out asks a worker about five things per capture, and a watching
// client describes it each second.
constexpr Rate kRates[] = {{60, 1}, {10, 0.1}, {10, 1}};

void Append(absl::string_view key, absl::string_view value, std::string* line) {
  if (value.empty()) return;
  absl::StrAppend(
      line, " ", key, "=\"",
      absl::StrReplaceAll(Printable(value, kMaxTextBytes), {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

}  // namespace

AuditKind KindOf(absl::string_view method) {
  for (absl::string_view query : {"/Describe", "/SyncClock", "/Monitor"}) {
    if (absl::EndsWith(method, query)) return AuditKind::kQuery;
  }
  return AuditKind::kAction;
}

std::string AuditLine(const AuditRecord& record, uint64_t omitted) {
  std::string line;
  Append("method", record.method, &line);
  Append("peer", record.peer, &line);
  Append("asked", record.asked, &line);
  absl::StrAppendFormat(&line, " seconds=%.3f status=%s", absl::ToDoubleSeconds(record.took),
                        absl::StatusCodeToString(record.status.code()));
  Append("reason", record.status.message(), &line);
  Append("outcome", record.outcome, &line);
  if (omitted > 0) absl::StrAppend(&line, " omitted=", omitted);
  return line.substr(1);
}

AuditLog::AuditLog(std::function<void(const std::string&)> write) : write_(std::move(write)) {}

void AuditLog::WriteAt(const AuditRecord& record, absl::Time now) {
  if (write_ == nullptr && GetLogLevel() > LogLevel::kWarning) return;
  const auto kind = static_cast<size_t>(record.kind);
  uint64_t omitted = 0;
  {
    const absl::MutexLock lock(&mutex_);
    Budget& budget = budgets_[kind];
    const Rate& rate = kRates[kind];
    // A clock that was set back gives no lines, and takes none.
    const double passed_s = std::max(0.0, absl::ToDoubleSeconds(now - budget.filled));
    budget.lines = std::min(rate.burst_lines, budget.lines + passed_s * rate.lines_per_second);
    budget.filled = now;
    if (budget.lines < 1) {
      ++budget.omitted;
      return;
    }
    budget.lines -= 1;
    std::swap(omitted, budget.omitted);
  }
  const std::string line = AuditLine(record, omitted);
  if (write_ != nullptr) {
    write_(line);
  } else {
    LogAudit(line);
  }
}

}  // namespace jobscope
