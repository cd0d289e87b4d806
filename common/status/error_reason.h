// SPDX-License-Identifier: Apache-2.0
//
// Defines what programs test of an error besides its code; its text is for people.
#ifndef COMMON_STATUS_ERROR_REASON_H_
#define COMMON_STATUS_ERROR_REASON_H_

#include "absl/status/status.h"

namespace jobscope {

enum class ErrorReason {
  kServerEnded,   // the profiler server has ended, and its captures with it
  kProcessLimit,  // a limit of the worker's process, or its memory, leaves no room for the capture
};

// The type of the payload with which a status carries its reason's name.
inline constexpr char kReasonPayload[] = "jobscope.ErrorReason";

// The reason on the wire: "SERVER_ENDED", ... (docs/wire.md).
const char* Name(ErrorReason reason);

// Returns `status`, an error, with the reason. Allocates; copies of the result do not.
absl::Status WithReason(absl::Status status, ErrorReason reason);

}  // namespace jobscope

#endif  // COMMON_STATUS_ERROR_REASON_H_
