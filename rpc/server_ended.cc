// SPDX-License-Identifier: Apache-2.0
#include "rpc/server_ended.h"

#include "rpc/error_details.h"

namespace jobscope {

absl::Status ServerEnded() {
  return WithReason(absl::UnavailableError(kServerEndedText), ErrorReason::kServerEnded);
}

bool IsServerEnded(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         (HasReason(status, ErrorReason::kServerEnded) ||
          status.error_message() == kServerEndedText);
}

}  // namespace jobscope
