// SPDX-License-Identifier: Apache-2.0
//
// Collects what the process's own threads record (<jobscope/trace.h>).
#ifndef COLLECTORS_HOST_HOST_COLLECTOR_H_
#define COLLECTORS_HOST_HOST_COLLECTOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/host/encoding/reader.h"
#include "collectors/host/host_session.h"
#include "common/sync/mutex.h"

namespace jobscope {

// Collects the events in the recorder's rings. The only reader of the process's recorder; lives as
// long as the process.
//
// Its report counts as described in collectors/host/encoding/event_encoder.h: `events` is the
// number of XEvents in the trace; a record that only adds to another event (the begin of a step, a
// flow, the second half of an async pair) is part of that event; scopes open at Stop count as
// attempted and in the trace. attempted = events + lost + outside, in total and for each thread;
// events of threads without a ring appear only in the total.
class HostCollector : public Collector {
 public:
  // `reader` is null, or older than this code supports, if there is no usable recorder: the
  // collector is then off, with the reason.
  explicit HostCollector(const host::Reader* reader);
  ~HostCollector() override;
  HostCollector(const HostCollector&) = delete;
  HostCollector& operator=(const HostCollector&) = delete;

  // Records steps, input waits and coarse scopes whether or not a session runs, as long as a server
  // runs. Any thread.
  void SetAlwaysOn(bool on);
  // Records everything of this host level (1 to 3) from now on; nullopt or 0: off. Any thread.
  void SetContinuous(std::optional<int> host_level);

  std::string_view name() const override { return "host"; }
  CollectorReport Describe() const override;
  uint64_t OldestTicks() const override { return oldest_ticks_.load(std::memory_order_acquire); }
  absl::Status Arm(const ArmRequest& request) override;
  uint64_t RecordingSince() const override {
    return recording_since_.load(std::memory_order_acquire);
  }
  uint64_t LostSoFar() const override { return lost_so_far_.load(std::memory_order_relaxed); }
  // Also without a recorder: the reason why Arm failed is then why nobody watches.
  bool WatchesSteps() const override { return true; }
  absl::Status Start(const StartRequest& request) override;
  absl::Duration Drain() override;
  absl::Status Stop(uint64_t end_ticks) override;
  CollectorReport Report() override;

 private:
  void SetHolder(uint32_t holder, uint32_t bits, uint64_t* since_ticks);
  // Returns body(). If it throws because memory ran out, destroys the session, which is then in no
  // state to be used, and rethrows.
  template <typename Body>
  auto OrEnd(Body body);

  const host::Reader* const reader_;
  std::atomic<uint64_t> oldest_ticks_{UINT64_MAX};
  std::atomic<uint64_t> recording_since_{0};
  std::atomic<uint64_t> lost_so_far_{0};
  std::unique_ptr<host::HostSession> session_;  // from Arm to Report

  Mutex mutex_;  // serialises set_mask, whose calls for one holder must not overlap
  // When each holder's bits were set; UINT64_MAX: not set.
  uint64_t always_on_since_ticks_ ABSL_GUARDED_BY(mutex_) = UINT64_MAX;
  uint64_t continuous_since_ticks_ ABSL_GUARDED_BY(mutex_) = UINT64_MAX;
};

}  // namespace jobscope

#endif  // COLLECTORS_HOST_HOST_COLLECTOR_H_
