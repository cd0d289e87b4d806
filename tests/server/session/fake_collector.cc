// SPDX-License-Identifier: Apache-2.0
#include "tests/server/session/fake_collector.h"

#include <chrono>
#include <cstdlib>

#include "common/xspace/segment/segment.h"

namespace jobscope {

FakeCollector::FakeCollector(std::string name) : name_(std::move(name)) {}

FakeCollector::~FakeCollector() {
  Release();
  for (const std::future<void>& ended : hung_) {
    if (ended.wait_for(std::chrono::seconds(60)) != std::future_status::ready) std::abort();
  }
}

void FakeCollector::HangIn(const std::string& verb) {
  std::lock_guard<std::mutex> lock(mutex_);
  hang_in_ = verb;
}

void FakeCollector::Release() {
  std::lock_guard<std::mutex> lock(mutex_);
  hang_in_.clear();
  changed_.notify_all();
}

void FakeCollector::FailIn(const std::string& verb, absl::Status status) {
  std::lock_guard<std::mutex> lock(mutex_);
  failures_[verb] = std::move(status);
}

void FakeCollector::OpenStepWindowAt(uint64_t open_ticks, uint64_t close_ticks) {
  std::lock_guard<std::mutex> lock(mutex_);
  open_ticks_ = open_ticks;
  close_ticks_ = close_ticks;
}

std::vector<std::string> FakeCollector::calls() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return calls_;
}

bool FakeCollector::AwaitCalls(const std::string& verb, int count) const {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(60), [&] {
    int seen = 0;
    for (const std::string& call : calls_) seen += call == verb;
    return seen >= count;
  });
}

StartRequest FakeCollector::start_request() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return start_request_;
}

uint64_t FakeCollector::end_ticks() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return end_ticks_;
}

absl::Status FakeCollector::Arm(const ArmRequest& request) {
  arm_request_ = request;
  return Enter("arm");
}

absl::Status FakeCollector::Start(const StartRequest& request) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    start_request_ = request;
  }
  return Enter("start");
}

absl::Duration FakeCollector::Drain() {
  (void)Enter("drain");
  std::lock_guard<std::mutex> lock(mutex_);
  if (open_ticks_ != 0) {
    arm_request_.events->OnStepWindowOpened(std::exchange(open_ticks_, 0));
  } else if (close_ticks_ != 0) {
    arm_request_.events->OnStepWindowClosed(std::exchange(close_ticks_, 0));
  }
  return absl::Milliseconds(1);
}

absl::Status FakeCollector::Stop(uint64_t end_ticks) {
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

CollectorReport FakeCollector::Report() {
  (void)Enter("report");
  CollectorReport report;
  report.attempted = events_ + 2;
  report.events = events_;
  report.lost_by_cause[LossCause::kOverwritten] = 2;
  report.steps = steps_;
  report.steps_inferred_from = steps_inferred_from_;
  return report;
}

absl::Status FakeCollector::Enter(const std::string& verb) {
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

}  // namespace jobscope
