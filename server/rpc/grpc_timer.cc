// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/grpc_timer.h"

#include <utility>

#include "rpc/deadline.h"

namespace jobscope {

void RunSoon(std::function<void()> body) {
  struct Hop {
    std::shared_ptr<grpc::Alarm> alarm = std::make_shared<grpc::Alarm>();
    std::function<void()> body;
  };
  auto hop = std::make_shared<Hop>();
  hop->body = std::move(body);
  // The callback may run, and release the alarm, before Set has returned.
  const std::shared_ptr<grpc::Alarm> alarm = hop->alarm;
  // Runs also when the alarm is "cancelled" because gRPC shuts down: otherwise a waiter would wait
  // for ever.
  alarm->Set(DeadlineIn(absl::ZeroDuration()), [hop](bool /*expired*/) {
    const std::shared_ptr<grpc::Alarm> last = std::move(hop->alarm);
    const std::function<void()> run = std::move(hop->body);
    run();
  });
}

std::unique_ptr<grpc::Alarm> RunAfter(absl::Duration delay, std::function<void()> body) {
  auto alarm = std::make_unique<grpc::Alarm>();
  alarm->Set(DeadlineIn(delay), [body = std::move(body)](bool expired) {
    if (expired) body();
  });
  return alarm;
}

}  // namespace jobscope
