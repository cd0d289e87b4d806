// SPDX-License-Identifier: Apache-2.0
//
// Diagnoses why a connection with credentials failed: gRPC says only "Socket closed" if the worker
// requires a certificate, and "certificate verify failed" whatever is wrong with its own.
#ifndef CLIENT_DIAGNOSIS_TLS_DIAGNOSIS_H_
#define CLIENT_DIAGNOSIS_TLS_DIAGNOSIS_H_

#include <string>

#include "absl/time/time.h"
#include "client/rpc/credentials.h"
#include "common/net/endpoint.h"

namespace jobscope {

// Connects once more, without gRPC, with the same handshake. Returns the cause and the remedy as
// one line; empty if there is none, or if credentials are not the cause (connection refused, no
// answer). `credentials` may be null: plain HTTP/2. Blocks for at most `timeout` (plus the name
// service's time); sends no request and no token.
std::string DiagnoseConnection(const Endpoint& endpoint, const ClientCredentials* credentials,
                               absl::Duration timeout);

}  // namespace jobscope

#endif  // CLIENT_DIAGNOSIS_TLS_DIAGNOSIS_H_
