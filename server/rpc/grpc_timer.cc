// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/grpc_timer.h"

#include <grpcpp/alarm.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/clock/monotonic.h"
#include "common/log/log.h"
#include "rpc/deadline.h"
#include "server/guard/resource_guard.h"

namespace jobscope {
namespace {

// A cancelled timer that is due sooner expires without effect; gRPC's alarm is cancelled only for
// one that would occupy memory for longer. gRPC puts the callback of a cancelled alarm into the
// queue of the executor's thread that cancels it, and starts another thread, up to two per
// processor, when three are in one queue. If the system refuses the thread, gRPC still uses its
// queue, and nothing in it ever runs: neither a wake-up nor the rest of a connection's work.
constexpr absl::Duration kLeftToExpire = absl::Seconds(5);
// What must be free before an alarm is cancelled: far more than gRPC allocates then.
constexpr size_t kCancelBytes = 1024;

// Calls `body` on a thread of gRPC's, which lets an exception end the process. Not `...`: Python
// ends threads by unwinding them.
void CallOnGrpcsThread(const std::function<void()>& body) {
  static std::atomic<bool> logged{false};
  try {
    body();
  } catch (const std::exception&) {
    if (logged.exchange(true)) return;
    Log(LogLevel::kError,
        "work of the profiler server was dropped: out of memory (logged once per process)");
  }
}

}  // namespace

void RunSoon(std::function<void()> body) {
  struct Hop {
    std::shared_ptr<grpc::Alarm> alarm = std::make_shared<grpc::Alarm>();
    std::function<void()> body;
  };
  auto hop = std::make_shared<Hop>();
  hop->body = std::move(body);
  // The callback may run, and release the alarm, before Set has returned.
  const std::shared_ptr<grpc::Alarm> alarm = hop->alarm;
  // A deadline that is over: gRPC rounds "now" up to its next millisecond, and would wait for that.
  // Runs also when the alarm is "cancelled" because gRPC shuts down: otherwise a waiter would wait
  // for ever.
  alarm->Set(gpr_inf_past(GPR_CLOCK_MONOTONIC), [hop](bool /*expired*/) {
    const std::shared_ptr<grpc::Alarm> last = std::move(hop->alarm);
    const std::function<void()> run = std::move(hop->body);
    CallOnGrpcsThread(run);
  });
}

// Shared by the timer and the alarm's callback.
struct GrpcTimer::Wait {
  void OnAlarm(bool expired) {
    std::shared_ptr<grpc::Alarm> last;  // its callback owns this
    std::function<void()> run;
    {
      const absl::MutexLock lock(&mutex);
      last.swap(alarm);
      run.swap(body);
    }
    if (expired && run) CallOnGrpcsThread(run);
  }

  absl::Mutex mutex;
  std::function<void()> body ABSL_GUARDED_BY(mutex);  // empty: it has begun, or is cancelled
  std::shared_ptr<grpc::Alarm> alarm ABSL_GUARDED_BY(mutex);  // null: it has expired
};

GrpcTimer::GrpcTimer(std::shared_ptr<Wait> wait, absl::Time due)
    : wait_(std::move(wait)), due_(due) {}

GrpcTimer::~GrpcTimer() { Cancel(); }

void GrpcTimer::Cancel() {
  std::function<void()> body;  // destroyed without the lock
  std::shared_ptr<grpc::Alarm> alarm;
  {
    const absl::MutexLock lock(&wait_->mutex);
    body.swap(wait_->body);
    if (due_ - SteadyNow() > kLeftToExpire) alarm = wait_->alarm;
  }
  // gRPC allocates with a lock of all timers held, which an exception would leave locked.
  if (alarm != nullptr && HeapHas(kCancelBytes)) alarm->Cancel();
}

std::unique_ptr<GrpcTimer> RunAfter(absl::Duration delay, std::function<void()> body) {
  auto wait = std::make_shared<GrpcTimer::Wait>();
  // The callback may run, and release the alarm, before Set has returned.
  const auto alarm = std::make_shared<grpc::Alarm>();
  {
    const absl::MutexLock lock(&wait->mutex);
    wait->body = std::move(body);
    wait->alarm = alarm;
  }
  std::unique_ptr<GrpcTimer> timer(new GrpcTimer(wait, SteadyNow() + delay));
  alarm->Set(DeadlineIn(delay), [wait](bool expired) { wait->OnAlarm(expired); });
  return timer;
}

}  // namespace jobscope
