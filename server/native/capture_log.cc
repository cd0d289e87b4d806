// SPDX-License-Identifier: Apache-2.0
#include "server/native/capture_log.h"

#include <exception>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "server/guard/resource_guard.h"

namespace jobscope {
namespace {

void TryLog(absl::FunctionRef<std::string()> make) {
  try {
    Log(LogLevel::kWarning, make());
  } catch (const std::exception&) {
    // Out of memory: without the line.
  }
}

}  // namespace

std::string TryText(absl::FunctionRef<std::string()> make) {
  try {
    return make();
  } catch (const std::exception&) {
    return "lacked memory";
  }
}

std::string WhyDropped(const absl::Status& result) {
  return TryText([&result] { return absl::StrCat("was dropped: ", result.message()); });
}

absl::Status TryCancelledError(absl::string_view message) {
  return StatusOrCode(absl::StatusCode::kCancelled,
                      [message] { return absl::CancelledError(message); });
}

void LogNotReconnected(const SessionOptions& options, absl::Duration resume) {
  TryLog([&] {
    return absl::StrCat("the client of session \"", options.session_id, "\", ", options.peer,
                        ", was lost while recording and has not reconnected for ",
                        absl::FormatDuration(resume), "; the recording ends and is held");
  });
}

void LogItemsLost(const SessionOptions& options, const std::string& why, uint64_t items) {
  TryLog([&] {
    return absl::StrCat("the capture of session \"", options.session_id, "\" for ", options.peer,
                        " ", why, "; ", items, " items were not acknowledged");
  });
}

}  // namespace jobscope
