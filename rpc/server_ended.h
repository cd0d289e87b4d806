// SPDX-License-Identifier: Apache-2.0
//
// Defines the status with which a worker reports that its server has ended: part of the wire
// (docs/wire.md).
#ifndef RPC_SERVER_ENDED_H_
#define RPC_SERVER_ENDED_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace jobscope {

// The text of that status, for people. Workers of earlier releases send it without a detail.
inline constexpr char kServerEndedText[] = "the profiler server of this process has ended";

// The UNAVAILABLE with which a server that ends, in a process that may go on, ends its calls. Its
// captures end with it. The reason distinguishes it from the UNAVAILABLE of a proxy between worker
// and client.
absl::Status ServerEnded();

// Returns whether `status` is a worker's ServerEnded(), also of an earlier release.
bool IsServerEnded(const grpc::Status& status);

}  // namespace jobscope

#endif  // RPC_SERVER_ENDED_H_
