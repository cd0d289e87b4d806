// SPDX-License-Identifier: Apache-2.0
//
// Who listens on an address that we wanted.
#ifndef SERVER_LISTEN_PORT_HOLDER_H_
#define SERVER_LISTEN_PORT_HOLDER_H_

#include <string>

#include "absl/time/time.h"
#include "server/listen/listen_address.h"

namespace jobscope {

// "a jobscope worker (pid 4711, rank 3)", "a TensorFlow or JAX profiler server", "another gRPC
// server", "a gRPC server that wants credentials", "another program" (also one that speaks TLS).
// Asks the listener itself, for at most `timeout` in all; call it on a thread whose signals are
// blocked, because gRPC starts threads. Changes nothing there: the only method of a stock server
// that it calls is Monitor, which stock servers do not implement.
std::string DescribePortHolder(const BindTarget& target, absl::Duration timeout);

}  // namespace jobscope

#endif  // SERVER_LISTEN_PORT_HOLDER_H_
