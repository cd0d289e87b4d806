// SPDX-License-Identifier: Apache-2.0
//
// Implements a collector whose verbs fail, hang or work, as a test requests.
#ifndef TESTS_SERVER_SESSION_FAKE_COLLECTOR_H_
#define TESTS_SERVER_SESSION_FAKE_COLLECTOR_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collectors/collector.h"
#include "common/xspace/segment/segment.h"

namespace jobscope {

class FakeCollector : public Collector {
 public:
  explicit FakeCollector(std::string name) : name_(std::move(name)) {}
  // A thread that hung here, and that its session no longer waits for, calls verbs until it ends.
  ~FakeCollector() override {
    Release();
    for (const std::future<void>& ended : hung_) {
      if (ended.wait_for(std::chrono::seconds(60)) != std::future_status::ready) std::abort();
    }
  }

  // The verb ("arm", "start", "drain", "stop", "report") hangs until Release.
  void HangIn(const std::string& verb) {
    std::lock_guard<std::mutex> lock(mutex_);
    hang_in_ = verb;
  }
  void Release() {
    std::lock_guard<std::mutex> lock(mutex_);
    hang_in_.clear();
    changed_.notify_all();
  }
  void FailIn(const std::string& verb, absl::Status status) {
    std::lock_guard<std::mutex> lock(mutex_);
    failures_[verb] = std::move(status);
  }
  // Opens and closes the step window in the first and second Drain.
  void OpenStepWindowAt(uint64_t open_ticks, uint64_t close_ticks) {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ticks_ = open_ticks;
    close_ticks_ = close_ticks;
  }
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

  std::vector<std::string> calls() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return calls_;
  }
  // Waits, at most 60 s, until `verb` has been called `count` times in all.
  bool AwaitCalls(const std::string& verb, int count) const {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] {
      int seen = 0;
      for (const std::string& call : calls_) seen += call == verb;
      return seen >= count;
    });
  }
  StartRequest start_request() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return start_request_;
  }
  // Of a session that has ended.
  uint64_t store_bytes() const { return arm_request_.store_bytes; }
  uint64_t end_ticks() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return end_ticks_;
  }

  std::string_view name() const override { return name_; }
  CollectorReport Describe() const override { return {}; }
  std::string WhyOff(const ArmRequest& /*request*/) const override { return why_off_; }
  uint64_t OldestTicks() const override { return oldest_ticks_; }
  uint64_t LostSoFar() const override { return lost_so_far_; }
  uint64_t RecordingSince() const override { return recording_since_; }
  bool WatchesSteps() const override { return watches_steps_; }

  absl::Status Arm(const ArmRequest& request) override {
    arm_request_ = request;
    return Enter("arm");
  }
  absl::Status Start(const StartRequest& request) override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      start_request_ = request;
    }
    return Enter("start");
  }
  absl::Duration Drain() override {
    (void)Enter("drain");
    std::lock_guard<std::mutex> lock(mutex_);
    if (open_ticks_ != 0) {
      arm_request_.events->OnStepWindowOpened(std::exchange(open_ticks_, 0));
    } else if (close_ticks_ != 0) {
      arm_request_.events->OnStepWindowClosed(std::exchange(close_ticks_, 0));
    }
    return absl::Milliseconds(1);
  }
  // Writes one event or as many as were set, so that a session has something to show.
  absl::Status Stop(uint64_t end_ticks) override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      end_ticks_ = end_ticks;
    }
    if (absl::Status status = Enter("stop"); !status.ok()) return status;
    xspace::Names& names = *arm_request_.names;
    const xspace::PlaneKey plane = names.Plane("/host:" + name_, 0);
    const int64_t line = names.Line(plane, 1, "line");
    xspace::SegmentBuilder segment(arm_request_.sink, plane, line, 1);
    xspace::SegmentEvent event;
    event.duration_ps = 1;
    event.metadata_id = names.Event(plane, "event");
    for (int i = 0; i < events_; ++i) {
      event.start_ps = 1 + i * int64_t{1'000'000'000};
      segment.Add(event);
    }
    segment.Flush();
    return absl::OkStatus();
  }
  CollectorReport Report() override {
    (void)Enter("report");
    CollectorReport report;
    report.attempted = events_ + 2;
    report.events = events_;
    report.lost_by_cause[LossCause::kOverwritten] = 2;
    report.steps = steps_;
    report.steps_inferred_from = steps_inferred_from_;
    return report;
  }

 private:
  absl::Status Enter(const std::string& verb) {
    std::unique_lock<std::mutex> lock(mutex_);
    calls_.push_back(verb);
    changed_.notify_all();
    if (hang_in_ == verb) {
      thread_local std::vector<std::promise<void>> at_exit;  // destroyed promises are ready
      hung_.push_back(at_exit.emplace_back().get_future());
    }
    changed_.wait(lock, [&] { return hang_in_ != verb; });
    return failures_[verb];
  }

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
