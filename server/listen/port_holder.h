// SPDX-License-Identifier: Apache-2.0
//
// Identifies the program that listens on an address that this worker tried to bind.
#ifndef SERVER_LISTEN_PORT_HOLDER_H_
#define SERVER_LISTEN_PORT_HOLDER_H_

#include <string>

#include "absl/time/time.h"
#include "server/listen/listen_address.h"

namespace jobscope {

// Returns "a jobscope worker (pid 4711, rank 3)", "a TensorFlow or JAX profiler server", "another
// gRPC server", "a gRPC server that requires credentials", "a gRPC server that does not accept this
// user" (a worker of another one) or "another program" (also one that speaks TLS). Queries the
// listener itself and blocks for at most `timeout` in all. Call it on a thread whose signals are
// blocked, because gRPC starts threads. Changes nothing there: the only method of a stock server
// that it calls is Monitor, which stock servers do not implement.
std::string DescribePortHolder(const BindTarget& target, absl::Duration timeout);

}  // namespace jobscope

#endif  // SERVER_LISTEN_PORT_HOLDER_H_
