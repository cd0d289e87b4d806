// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/timers.h"

#include <grpcpp/alarm.h>

#include "client/rpc/completion.h"
#include "common/clock/monotonic.h"
#include "rpc/deadline.h"

namespace jobscope {
namespace {

// A timer that fires so much after it was due shows that events wait in the queue.
constexpr uint64_t kLateNs = 500'000'000;

}  // namespace

// Owns itself until it has gone off or its cancellation has arrived.
class Timers::Alarm : public Completion {
 public:
  Alarm(Timers* timers, uint64_t due_ns) : due_ns_(due_ns), timers_(timers) {}

  void Set(std::shared_ptr<Alarm> self) {
    self_ = std::move(self);
    const uint64_t now_ns = MonotonicNow();
    const auto wait_ns = static_cast<int64_t>(due_ns_ > now_ns ? due_ns_ - now_ns : 0);
    alarm_.Set(timers_->queue_, DeadlineIn(absl::Nanoseconds(wait_ns)),
               static_cast<Completion*>(this));
  }
  void Cancel() { alarm_.Cancel(); }
  uint64_t due_ns() const { return due_ns_; }

  void OnDone(bool /*ok*/) override {
    const std::shared_ptr<Alarm> self = std::move(self_);
    timers_->OnAlarm(this);
  }

 private:
  const uint64_t due_ns_;
  Timers* const timers_;
  grpc::Alarm alarm_;
  std::shared_ptr<Alarm> self_;
};

Timers::Id Timers::Start(absl::Duration delay, std::function<void()> fire) {
  const uint64_t due_ns = MonotonicNow() + DurationNs(delay);
  const absl::MutexLock lock(&mutex_);
  const Id id(due_ns, ++last_number_);
  pending_.emplace(id, std::move(fire));
  SetAlarm();
  return id;
}

void Timers::Cancel(Id id) {
  Pending::node_type timer;  // destroyed without the lock
  const absl::MutexLock lock(&mutex_);
  timer = pending_.extract(id);
}

void Timers::Stop() {
  Pending pending;
  const absl::MutexLock lock(&mutex_);
  pending.swap(pending_);
  if (alarm_ != nullptr) alarm_->Cancel();
}

void Timers::SetAlarm() {
  if (pending_.empty()) return;
  const uint64_t due_ns = pending_.begin()->first.first;
  if (alarm_ != nullptr) {
    if (alarm_->due_ns() <= due_ns) return;
    alarm_->Cancel();
  }
  alarm_ = std::make_shared<Alarm>(this, due_ns);
  alarm_->Set(alarm_);
}

void Timers::OnAlarm(const Alarm* alarm) {
  Pending due;
  const uint64_t now_ns = MonotonicNow();
  {
    const absl::MutexLock lock(&mutex_);
    if (alarm != alarm_.get()) return;  // cancelled
    alarm_.reset();
    while (!pending_.empty() && pending_.begin()->first.first <= now_ns) {
      due.insert(due.end(), pending_.extract(pending_.begin()));
    }
    SetAlarm();
  }
  while (!due.empty()) {
    const Pending::node_type timer = due.extract(due.begin());
    NoteLateness(timer.key().first, now_ns);
    timer.mapped()();
  }
}

void Timers::NoteLateness(uint64_t due_ns, uint64_t now_ns) {
  if (now_ns < due_ns + kLateNs) return;
  uint64_t last_ns = last_late_ns_.load(std::memory_order_relaxed);
  while (last_ns < now_ns &&
         !last_late_ns_.compare_exchange_weak(last_ns, now_ns, std::memory_order_relaxed)) {
  }
}

}  // namespace jobscope
