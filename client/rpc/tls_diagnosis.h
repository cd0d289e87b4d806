// SPDX-License-Identifier: Apache-2.0
//
// Why a connection with credentials was not made: gRPC says "Socket closed" where the worker wants
// a certificate, and "certificate verify failed" whatever is wrong with its own.
#ifndef CLIENT_RPC_TLS_DIAGNOSIS_H_
#define CLIENT_RPC_TLS_DIAGNOSIS_H_

#include <string>

#include "absl/time/time.h"
#include "client/rpc/credentials.h"
#include "common/net/endpoint.h"

namespace jobscope {

// Connects once more, by hand, and shakes hands as gRPC would have. Returns what stands in the way
// and what to do about it, as one line; empty when nothing does, or when it is not the credentials'
// fault (nobody listens, silence). `credentials` may be null: plain HTTP/2. Blocks, at most
// `timeout` (and what a name service takes); sends no request and no token.
std::string DiagnoseConnection(const Endpoint& endpoint, const ClientCredentials* credentials,
                               absl::Duration timeout);

}  // namespace jobscope

#endif  // CLIENT_RPC_TLS_DIAGNOSIS_H_
