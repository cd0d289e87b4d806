// SPDX-License-Identifier: Apache-2.0
#ifndef SERVER_RPC_SELF_CALL_H_
#define SERVER_RPC_SELF_CALL_H_

#include <grpcpp/server.h>

#include "absl/time/time.h"

namespace jobscope {

// Returns whether the server answers a call to its own health service, within this process. With
// too few threads gRPC accepts connections and answers nothing. Blocks for at most `limit`, plus
// 100 ms for the call's end.
bool AnswersItself(grpc::Server* server, absl::Duration limit);

}  // namespace jobscope

#endif  // SERVER_RPC_SELF_CALL_H_
