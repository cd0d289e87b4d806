// SPDX-License-Identifier: Apache-2.0
//
// Writes one structured line per request: who, what, how long, outcome. Shown at the default log
// level.
#ifndef SERVER_SECURITY_AUDIT_H_
#define SERVER_SECURITY_AUDIT_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace jobscope {

// The kind of a request. Each has its own budget of lines, so that a flood of one does not hide
// another.
enum class AuditKind {
  kAction,   // records, delivers or ends something: captures, Stop, Fetch
  kQuery,    // changes nothing: Describe, SyncClock, Monitor
  kRefusal,  // refused because of a missing credential, before any method ran
};

struct AuditRecord {
  AuditKind kind = AuditKind::kAction;
  absl::string_view method;  // "tensorflow.ProfilerService/Profile"; "connection"
  absl::string_view peer;
  absl::string_view asked;  // what was requested
  absl::Duration took;
  absl::Status status;
  absl::string_view outcome;  // what was delivered
};

// Returns the kind of a method, by its name.
AuditKind KindOf(absl::string_view method);

// Returns key="value" pairs: method, peer, asked, seconds, status, reason, outcome, omitted;
// without empty ones. Makes foreign text printable, and escapes quotes and backslashes. At most
// about 1,500 bytes.
std::string AuditLine(const AuditRecord& record, uint64_t omitted = 0);

// Writes the audit lines of one server. Thread-safe. Costs a lock and a comparison for an omitted
// line, and a comparison while the log level is above warning.
class AuditLog {
 public:
  // `write` receives the lines, for tests; otherwise they go to common/log/log.
  explicit AuditLog(std::function<void(const std::string&)> write = nullptr);

  // Writes the line of `record`, unless its kind has had 60 (queries and refusals: 10) at once,
  // plus one per second (queries: per 10 s). `omitted` in the next line counts those not written.
  void Write(const AuditRecord& record) { WriteAt(record, absl::Now()); }
  void WriteAt(const AuditRecord& record, absl::Time now);

 private:
  struct Budget {
    double lines = 0;
    absl::Time filled = absl::InfinitePast();
    uint64_t omitted = 0;
  };

  const std::function<void(const std::string&)> write_;
  absl::Mutex mutex_;
  std::array<Budget, 3> budgets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_AUDIT_H_
