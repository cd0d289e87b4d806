// SPDX-License-Identifier: Apache-2.0
//
// Collects Python's garbage collections.
#ifndef COLLECTORS_PYTHON_GC_GC_COLLECTOR_H_
#define COLLECTORS_PYTHON_GC_GC_COLLECTOR_H_

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "collectors/collector.h"
#include "common/sync/mutex.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope {

class DetachedCaller;

// Records Python's garbage collections in each capture with host_tracer_level >= 1, if the process
// has CPython. Python calls it at each collection, from Arm until Stop; the collections are
// recorded as scopes, so the host collector counts their events and losses. Acquires the GIL for
// microseconds, on a thread of its own: no call blocks longer than kTimeout, and if the GIL comes
// later, collections are recorded from then on.
class GcCollector : public Collector {
 public:
  // `writer` is null without a recorder, else valid for the life of the process.
  explicit GcCollector(const struct jobscope_trace_writer_table* writer);
  ~GcCollector() override;
  GcCollector(const GcCollector&) = delete;
  GcCollector& operator=(const GcCollector&) = delete;

  std::string_view name() const override { return "gc"; }
  CollectorReport Describe() const override;
  std::string WhyOff(const ArmRequest& request) const override;
  absl::Status Arm(const ArmRequest& request) override;
  absl::Status Start(const StartRequest& request) override;
  absl::Status Stop(uint64_t end_ticks) override;
  CollectorReport Report() override;

 private:
  // Shared between the helper's calls and this object; outlives both.
  struct Wish {
    std::atomic<bool> wanted{false};  // a session is recording
    std::atomic<bool> added{false};   // in this session
    Mutex mutex;
    absl::Status status ABSL_GUARDED_BY(mutex);
  };

  const struct jobscope_trace_writer_table* const writer_;
  const std::shared_ptr<Wish> wish_;
  std::shared_ptr<DetachedCaller> helper_;
  CollectorReport report_;
};

}  // namespace jobscope

#endif  // COLLECTORS_PYTHON_GC_GC_COLLECTOR_H_
