// SPDX-License-Identifier: Apache-2.0
//
// Parses the worker's messages on the streams of jobscope.v1.Profiler, except items.
#ifndef CLIENT_NATIVE_WIRE_WORKER_MESSAGE_H_
#define CLIENT_NATIVE_WIRE_WORKER_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <optional>
#include <variant>

#include "absl/status/statusor.h"
#include "client/clock/clock_sync.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

// std::monostate: an empty message, or one from a newer worker.
using WorkerMessage = std::variant<std::monostate, v1::Armed, v1::Started, v1::Progress, v1::Ended>;

// Returns whether the message contains items or a chunk, which are not parsed here.
bool HoldsItems(const grpc::ByteBuffer& message);

// Returns INVALID_ARGUMENT for any other unreadable message, and for one that is too large.
absl::StatusOr<WorkerMessage> ReadWorkerMessage(const grpc::ByteBuffer& message);

// Estimates the worker's clock from `arm`, sent at `sent_ns`, and this answer, received just now.
// nullopt: from an older worker, or invalid.
std::optional<ClockEstimate> ClockOf(const v1::Armed& armed, uint64_t sent_ns);

// Returns why there is no summary; UNKNOWN if the worker gave no reason.
grpc::Status StatusOf(const v1::Ended& ended);

}  // namespace jobscope

#endif  // CLIENT_NATIVE_WIRE_WORKER_MESSAGE_H_
