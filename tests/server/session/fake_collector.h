// SPDX-License-Identifier: Apache-2.0
//
// Implements a collector whose verbs fail, hang or work, as a test requests.
#ifndef TESTS_SERVER_SESSION_FAKE_COLLECTOR_H_
#define TESTS_SERVER_SESSION_FAKE_COLLECTOR_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collectors/collector.h"

namespace jobscope {

class FakeCollector : public Collector {
 public:
  explicit FakeCollector(std::string name);
  // A thread that hung here, and that its session no longer waits for, calls verbs until it ends.
  ~FakeCollector() override;

  // The verb ("arm", "start", "drain", "stop", "report") hangs until Release.
  void HangIn(const std::string& verb);
  void Release();
  void FailIn(const std::string& verb, absl::Status status);
  // Opens and closes the step window in the first and second Drain.
  void OpenStepWindowAt(uint64_t open_ticks, uint64_t close_ticks);
  // Before the session: it takes no part in it, for this reason.
  void set_off(std::string why) { why_off_ = std::move(why); }
  void set_oldest_ticks(uint64_t ticks) { oldest_ticks_ = ticks; }
  void set_lost_so_far(uint64_t lost) { lost_so_far_ = lost; }
  void set_recording_since(uint64_t ticks) { recording_since_ = ticks; }
  void set_watches_steps(bool watches) { watches_steps_ = watches; }
  // Before the session: how many events Stop writes, one each millisecond.
  void set_events(int events) { events_ = events; }
  // Before the session: what Report tells of steps.
  void set_steps(uint64_t steps, std::string inferred_from) {
    steps_ = steps;
    steps_inferred_from_ = std::move(inferred_from);
  }

  std::vector<std::string> calls() const;
  // Waits, at most 60 s, until `verb` has been called `count` times in all.
  bool AwaitCalls(const std::string& verb, int count) const;
  StartRequest start_request() const;
  // Of a session that has ended.
  uint64_t store_bytes() const { return arm_request_.store_bytes; }
  uint64_t end_ticks() const;

  std::string_view name() const override { return name_; }
  CollectorReport Describe() const override { return {}; }
  std::string WhyOff(const ArmRequest& /*request*/) const override { return why_off_; }
  uint64_t OldestTicks() const override { return oldest_ticks_; }
  uint64_t LostSoFar() const override { return lost_so_far_; }
  uint64_t RecordingSince() const override { return recording_since_; }
  bool WatchesSteps() const override { return watches_steps_; }

  absl::Status Arm(const ArmRequest& request) override;
  absl::Status Start(const StartRequest& request) override;
  absl::Duration Drain() override;
  // Writes one event or as many as were set, so that a session has something to show.
  absl::Status Stop(uint64_t end_ticks) override;
  CollectorReport Report() override;

 private:
  absl::Status Enter(const std::string& verb);

  const std::string name_;
  std::string why_off_;
  uint64_t steps_ = 1;
  std::string steps_inferred_from_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::string> calls_;
  std::string hang_in_;
  std::vector<std::future<void>> hung_;  // ready when a thread that hung has ended
  std::map<std::string, absl::Status> failures_;
  ArmRequest arm_request_;
  StartRequest start_request_;
  uint64_t end_ticks_ = 0;
  std::atomic<uint64_t> oldest_ticks_{UINT64_MAX};
  std::atomic<uint64_t> lost_so_far_{0};
  std::atomic<uint64_t> recording_since_{0};
  uint64_t open_ticks_ = 0;
  uint64_t close_ticks_ = 0;
  bool watches_steps_ = false;
  int events_ = 1;
};

}  // namespace jobscope

#endif  // TESTS_SERVER_SESSION_FAKE_COLLECTOR_H_
