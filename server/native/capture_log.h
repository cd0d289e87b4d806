// SPDX-License-Identifier: Apache-2.0
//
// Words and logs why native captures end. All functions throw nothing: if memory has run out, a
// text is shorter, and a line of the log is left out. A capture whose end throws would hold its
// memory for ever.
#ifndef SERVER_NATIVE_CAPTURE_LOG_H_
#define SERVER_NATIVE_CAPTURE_LOG_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/session/session_options.h"

namespace jobscope {

// Returns `make()`, or a text that is too short to need memory.
std::string TryText(absl::FunctionRef<std::string()> make);

// Returns "was dropped: " and the message of `result`.
std::string WhyDropped(const absl::Status& result);

absl::Status TryCancelledError(absl::string_view message);

// The recording ends because its client has not reconnected for `resume`.
void LogNotReconnected(const SessionOptions& options, absl::Duration resume);

// The capture is gone, and no client has acknowledged `items` of its items. `why` completes "the
// capture ...".
void LogItemsLost(const SessionOptions& options, const std::string& why, uint64_t items);

}  // namespace jobscope

#endif  // SERVER_NATIVE_CAPTURE_LOG_H_
