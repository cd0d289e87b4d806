// SPDX-License-Identifier: Apache-2.0
//
// Defines what the validations of both services share. Each validation converts a message of a peer
// into session options, or returns INVALID_ARGUMENT that names field, value and range
// (server/limits.h), or PERMISSION_DENIED that names one of the operator's ceilings
// (server/rpc/ceilings.h). Pure functions: no clock, no environment, no log.
#ifndef SERVER_RPC_VALIDATION_H_
#define SERVER_RPC_VALIDATION_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/rpc/ceilings.h"

namespace jobscope {

// Facts about a call besides its request.
struct CallContext {
  std::string peer;  // for refusal messages and audit lines
  absl::Time now;
  absl::Time deadline = absl::InfiniteFuture();  // the caller's own
  uint64_t store_bytes = 0;                      // limit of one capture in this worker
  Ceilings ceilings;
  absl::string_view own_host;  // names the trace if the request names nothing
};

// Returns INVALID_ARGUMENT: "field = value is out of range: range; hint".
absl::Status OutOfRange(absl::string_view field, absl::string_view value, absl::string_view range,
                        absl::string_view hint = {});

// Returns OutOfRange if a text of `bytes` is longer than `max_bytes`.
absl::Status CheckSize(absl::string_view field, size_t bytes, size_t max_bytes);

}  // namespace jobscope

#endif  // SERVER_RPC_VALIDATION_H_
