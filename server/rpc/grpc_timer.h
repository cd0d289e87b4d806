// SPDX-License-Identifier: Apache-2.0
//
// Work that gRPC's own threads do later: the server has no thread of its own for it.
#ifndef SERVER_RPC_GRPC_TIMER_H_
#define SERVER_RPC_GRPC_TIMER_H_

#include <grpcpp/alarm.h>

#include <functional>
#include <memory>

#include "absl/time/time.h"

namespace jobscope {

// Runs `body` once, soon, and never in the caller's thread: for those who call us from threads that
// are not ours, or that must not be held up. Costs the caller a few microseconds.
void RunSoon(std::function<void()> body);

// Runs `body` once, at `delay` from now, unless the alarm is destroyed before. It may be running
// while the alarm is destroyed, also by itself: it holds what it touches, weakly where that holds
// the alarm.
std::unique_ptr<grpc::Alarm> RunAfter(absl::Duration delay, std::function<void()> body);

}  // namespace jobscope

#endif  // SERVER_RPC_GRPC_TIMER_H_
