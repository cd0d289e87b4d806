// SPDX-License-Identifier: Apache-2.0
//
// Runs work later on gRPC's own threads: the server has no thread for it.
#ifndef SERVER_RPC_GRPC_TIMER_H_
#define SERVER_RPC_GRPC_TIMER_H_

#include <grpcpp/alarm.h>

#include <functional>
#include <memory>

#include "absl/time/time.h"

namespace jobscope {

// Runs `body` once, soon, and never on the caller's thread: for callers on foreign threads, or on
// threads that must not be delayed. Costs the caller a few microseconds.
void RunSoon(std::function<void()> body);

// Runs `body` once after `delay`, unless the alarm is destroyed first. `body` may run while the
// alarm is being destroyed, and may destroy it: it must own the objects that it uses, by a
// weak_ptr if they own the alarm.
std::unique_ptr<grpc::Alarm> RunAfter(absl::Duration delay, std::function<void()> body);

}  // namespace jobscope

#endif  // SERVER_RPC_GRPC_TIMER_H_
