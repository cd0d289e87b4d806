// SPDX-License-Identifier: Apache-2.0
//
// Logs requests that were refused because of missing credentials, at a limited rate: a caller
// without credentials must not fill the job's log.
#ifndef SERVER_SECURITY_REFUSAL_LOG_H_
#define SERVER_SECURITY_REFUSAL_LOG_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace jobscope {

struct Refusal {
  absl::string_view path;        // as the caller wrote it: "/package.Service/Method"
  absl::string_view name;        // in its certificate; empty without one
  absl::string_view user_agent;  // as the caller wrote it
  absl::string_view reason;
};

// Writes at most 10 lines at once and one more per second; the next line says how many were left
// out. Thread-safe. Costs a lock and a comparison while the log level is above info.
class RefusalLog {
 public:
  // `write` receives the lines; for tests.
  explicit RefusalLog(std::function<void(const std::string&)> write = nullptr);

  void Add(const Refusal& refusal) { AddAt(refusal, absl::Now()); }
  void AddAt(const Refusal& refusal, absl::Time now);

 private:
  const std::function<void(const std::string&)> write_;
  absl::Mutex mutex_;
  absl::Time filled_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  double lines_left_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_REFUSAL_LOG_H_
