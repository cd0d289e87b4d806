// SPDX-License-Identifier: Apache-2.0
//
// The collector of what the process's own threads record (<jobscope/trace.h>).
#ifndef COLLECTORS_HOST_HOST_COLLECTOR_H_
#define COLLECTORS_HOST_HOST_COLLECTOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/host/host_session.h"
#include "collectors/host/reader.h"

namespace jobscope {

// Turns rings into items. The one reader of the process's recorder; lives as long as the process.
//
// Its report counts events as host/event_encoder.h says: `events` is the number of XEvents it put
// into the trace, a record that only adds to another event (the begin of a step, a flow, the second
// half of an async pair) is part of that event, and scopes that were open at Stop count as
// attempted and in the trace. attempted = events + lost + outside, in total and for each thread;
// events of threads without a ring appear in the total only.
class HostCollector : public Collector {
 public:
  // `reader` is null, or older than this code knows, where there is no usable recorder: the
  // collector is then off, and says why.
  explicit HostCollector(const host::Reader* reader);
  ~HostCollector() override;
  HostCollector(const HostCollector&) = delete;
  HostCollector& operator=(const HostCollector&) = delete;

  // Steps, input waits and coarse scopes are recorded from now on, whether or not a session runs:
  // while a server does. Any thread.
  void SetAlwaysOn(bool on);
  // Everything of this host level (1 to 3) is recorded from now on; nullopt or 0: off. Any thread.
  void SetContinuous(std::optional<int> host_level);

  std::string_view name() const override { return "host"; }
  CollectorReport Describe() const override;
  uint64_t OldestTicks() const override { return oldest_ticks_.load(std::memory_order_acquire); }
  absl::Status Arm(const ArmRequest& request) override;
  uint64_t RecordingSince() const override {
    return recording_since_.load(std::memory_order_acquire);
  }
  uint64_t LostSoFar() const override { return lost_so_far_.load(std::memory_order_relaxed); }
  bool WatchesSteps() const override { return reader_ != nullptr; }
  absl::Status Start(const StartRequest& request) override;
  absl::Duration Drain() override;
  absl::Status Stop(uint64_t end_ticks) override;
  CollectorReport Report() override;

 private:
  void SetHolder(uint32_t holder, uint32_t bits, uint64_t* since_ticks);

  const host::Reader* const reader_;
  std::atomic<uint64_t> oldest_ticks_{UINT64_MAX};
  std::atomic<uint64_t> recording_since_{0};
  std::atomic<uint64_t> lost_so_far_{0};
  std::unique_ptr<host::HostSession> session_;  // from Arm to Report

  std::mutex mutex_;  // two calls of set_mask for one holder must not overlap
  // Since when a holder's bits are set; UINT64_MAX: they are not.
  uint64_t always_on_since_ticks_ = UINT64_MAX;
  uint64_t continuous_since_ticks_ = UINT64_MAX;
};

}  // namespace jobscope

#endif  // COLLECTORS_HOST_HOST_COLLECTOR_H_
