// SPDX-License-Identifier: Apache-2.0
//
// What a worker says on the streams of jobscope.v1.Profiler, but for items.
#ifndef CLIENT_WIRE_WORKER_MESSAGE_H_
#define CLIENT_WIRE_WORKER_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <optional>
#include <variant>

#include "absl/status/statusor.h"
#include "client/clock/clock_sync.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

// std::monostate: an empty message, or one of a newer worker.
using WorkerMessage = std::variant<std::monostate, v1::Armed, v1::Started, v1::Progress, v1::Ended>;

// True for a message of items or of a chunk, which is not to be parsed here.
bool HoldsItems(const grpc::ByteBuffer& message);

// Returns INVALID_ARGUMENT for anything else that cannot be read, and for what is too large.
absl::StatusOr<WorkerMessage> ReadWorkerMessage(const grpc::ByteBuffer& message);

// The worker's clock, as the way of `arm`, sent at `sent_ns`, and of this answer, which has come just
// now, tell it. Absent: of an older worker, or nonsense.
std::optional<ClockEstimate> ClockOf(const v1::Armed& armed, uint64_t sent_ns);

// Why there is no summary; UNKNOWN if the worker gave no reason.
grpc::Status StatusOf(const v1::Ended& ended);

}  // namespace jobscope

#endif  // CLIENT_WIRE_WORKER_MESSAGE_H_
