// SPDX-License-Identifier: Apache-2.0
#include "common/status/error_reason.h"

#include "absl/strings/cord.h"

namespace jobscope {

const char* Name(ErrorReason reason) {
  switch (reason) {
    case ErrorReason::kServerEnded:
      return "SERVER_ENDED";
    case ErrorReason::kProcessLimit:
      return "PROCESS_LIMIT";
  }
  return "";
}

absl::Status WithReason(absl::Status status, ErrorReason reason) {
  status.SetPayload(kReasonPayload, absl::Cord(Name(reason)));
  return status;
}

}  // namespace jobscope
