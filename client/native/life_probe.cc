// SPDX-License-Identifier: Apache-2.0
#include "client/native/life_probe.h"

#include <atomic>
#include <utility>

#include "client/rpc/unary_calls.h"
#include "common/clock/monotonic.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {
namespace {

// Interval at which a probe asks for one of max_running.
constexpr absl::Duration kProbeAgain = absl::Seconds(1);

// In this process.
std::atomic<int> g_probes{0};

// Any answer proves that the worker is alive, even one that it does not know the method.
bool IsNoAnswer(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::CANCELLED;
}

}  // namespace

struct LifeProbe::Running {
  explicit Running(std::unique_ptr<UnaryCalls> made) : calls(std::move(made)) {}
  ~Running() {
    calls.reset();
    --g_probes;
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  std::unique_ptr<UnaryCalls> calls;
};

LifeProbe::LifeProbe(int max_running, absl::Duration timeout, Dial dial, CallThreads* threads)
    : max_running_(max_running), timeout_(timeout), dial_(std::move(dial)), threads_(threads) {}

LifeProbe::~LifeProbe() = default;

void LifeProbe::Start(Answered answered) {
  if (g_probes.fetch_add(1) >= max_running_) {
    --g_probes;
    next_ns_ = MonotonicNow() + DurationNs(kProbeAgain);
    return;
  }
  running_ = std::make_unique<Running>(std::make_unique<UnaryCalls>(dial_(), threads_));
  running_->calls->Describe(timeout_,
                            [answered = std::move(answered)](const grpc::Status& status,
                                                             const v1::DescribeResponse& response) {
                              answered(status, status.ok() && response.busy().client_lost_ms() > 0);
                            });
}

bool LifeProbe::Finish(const grpc::Status& status) {
  running_.reset();
  const bool alive = !IsNoAnswer(status);
  if (alive) alive_ns_ = MonotonicNow();
  return alive;
}

void LifeProbe::Cancel() { running_.reset(); }

}  // namespace jobscope
