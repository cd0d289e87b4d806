// SPDX-License-Identifier: Apache-2.0
#include "server/session/running_session.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_format.h"
#include "common/clock/monotonic.h"
#include "common/run/session_state.h"

namespace jobscope {

v1::Busy RunningSession::Describe() const {
  v1::Busy busy = run_->Describe();
  if (!client_lost_.has_value() || delivering_) return busy;
  const uint64_t now_ns = MonotonicNow();
  const auto milliseconds = [](uint64_t from_ns, uint64_t to_ns) {
    return to_ns > from_ns ? (to_ns - from_ns) / 1'000'000 : 0;
  };
  // 0 means that the client is connected.
  busy.set_client_lost_ms(std::max<uint64_t>(milliseconds(client_lost_->since_ns, now_ns), 1));
  const uint64_t left_ms = std::max<uint64_t>(milliseconds(now_ns, client_lost_->ends_ns), 1);
  if (busy.remaining_ms() == 0 || left_ms < busy.remaining_ms()) busy.set_remaining_ms(left_ms);
  return busy;
}

absl::Status RunningSession::BusyError() const {
  const v1::Busy busy = Describe();
  const std::string left =
      busy.remaining_ms() > 0 ? absl::StrFormat(", for %d ms more", busy.remaining_ms()) : "";
  const std::string lost =
      busy.client_lost_ms() > 0
          ? absl::StrFormat(", whose connection was lost %d ms ago", busy.client_lost_ms())
          : "";
  // Nothing of a session that only delivers can be stopped.
  const char* const advice =
      busy.state() == Name(SessionPhase::kDelivering)
          ? "it has ended, and its trace is still being delivered; try again later"
          : "wait for it, or end it with `capture stop`";
  return absl::AlreadyExistsError(absl::StrFormat(
      "a capture is %s here (session \"%s\", asked for by %s%s)%s; %s", busy.state(),
      busy.session_id(), busy.peer().empty() ? "this process" : busy.peer(), lost, left, advice));
}

}  // namespace jobscope
