// SPDX-License-Identifier: Apache-2.0
//
// Connects a socket to a worker without gRPC.
#ifndef CLIENT_DIAGNOSIS_WORKER_SOCKET_H_
#define CLIENT_DIAGNOSIS_WORKER_SOCKET_H_

#include "absl/time/time.h"
#include "common/net/endpoint.h"

namespace jobscope {

// Returns a non-blocking socket that the caller closes, or -1 if none was connected by the deadline
// (of SteadyNow; the name service may take longer).
int ConnectTo(const Endpoint& endpoint, absl::Time deadline);

// Waits for events of poll(2). Returns false if there are none by the deadline.
bool AwaitSocket(int fd, short events, absl::Time deadline);

}  // namespace jobscope

#endif  // CLIENT_DIAGNOSIS_WORKER_SOCKET_H_
