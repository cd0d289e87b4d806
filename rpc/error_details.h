// SPDX-License-Identifier: Apache-2.0
//
// Carries the reason of an error between processes, in the details of a grpc::Status.
#ifndef RPC_ERROR_DETAILS_H_
#define RPC_ERROR_DETAILS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "common/status/error_reason.h"

namespace jobscope {

// Returns the details of a grpc::Status that carries the reason of `status`: a google.rpc.Status
// with a google.rpc.ErrorInfo. Empty if there is no reason.
std::string ErrorDetails(const absl::Status& status);

// Returns whether a worker gave `status` this reason.
bool HasReason(const grpc::Status& status, ErrorReason reason);

}  // namespace jobscope

#endif  // RPC_ERROR_DETAILS_H_
