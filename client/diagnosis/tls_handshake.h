// SPDX-License-Identifier: Apache-2.0
//
// Performs one TLS handshake with a worker to find out what each side objects to.
#ifndef CLIENT_DIAGNOSIS_TLS_HANDSHAKE_H_
#define CLIENT_DIAGNOSIS_TLS_HANDSHAKE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/rpc/credentials.h"
#include "common/net/endpoint.h"

namespace jobscope {

// Results of a handshake.
struct HandshakeFindings {
  std::vector<std::string> complaints;  // our findings about the worker's certificate
  bool wants_certificate = false;       // the worker has requested ours
  std::vector<std::string> accepted;    // CAs whose certificates it accepts, quoted
  std::string presented_issuer;         // the CA of ours, quoted; empty: we have none
  bool spoke = false;                   // received anything
  bool spoke_tls = false;
  bool complete = false;  // on our side; in TLS 1.3 the worker has not yet checked ours then
  bool spoke_http2 = false;
  bool went_on = false;  // the worker sent data after the handshake: it succeeded
  bool closed = false;
  std::optional<int> alert;  // from the worker
};

// Connects and performs the handshake as gRPC would, but continues despite our complaints. Blocks
// until the worker has answered the finished handshake, or the deadline (of SteadyNow; the name
// service may take longer). `credentials` may be null. Returns nullopt without a connection.
std::optional<HandshakeFindings> TryHandshake(const Endpoint& endpoint,
                                              const ClientCredentials* credentials,
                                              absl::Time deadline);

}  // namespace jobscope

#endif  // CLIENT_DIAGNOSIS_TLS_HANDSHAKE_H_
