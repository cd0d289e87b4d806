// SPDX-License-Identifier: Apache-2.0
#include "client/worker/worker_outcome.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/run/session_state.h"
#include "common/text/foreign_text.h"
#include "rpc/arguments.h"
#include "rpc/error_details.h"

namespace jobscope {
namespace {

constexpr size_t kMaxReasonBytes = 400;

// Stock servers report "busy" as INTERNAL.
bool IsBusyText(const std::string& text) {
  return absl::StrContains(text, "Another profiling session active");
}

// The channel times out on a silent peer at the same time as the call; on a busy machine it is
// sometimes the first of the two.
bool IsSilence(const grpc::Status& status) {
  return absl::StrContains(status.error_message(), "timed out before receiving SETTINGS");
}

// A worker that is stopped, or has used up its descriptors, is connected to by its kernel alone.
constexpr char kHintForSilence[] =
    "is its process stopped, without a free thread, or without a processor?";
constexpr char kHintForNoConnection[] =
    "is a firewall between, the host down, or the process stopped or without free descriptors?";
constexpr char kHintForClosed[] =
    "the other side closed the connection: does the worker require TLS (--tls_ca), is its memory "
    "used up (its log says so), or is that another program's port?";

std::string TooLarge(const grpc::Status& status) {
  return absl::StrCat("the answer is too large for one message: ", ReasonOf(status),
                      "; record for a shorter time, or at a lower level");
}

std::string WithHint(const std::string& reason) {
  // Messages of gRPC, c-ares and HTTP/2 about a connection, and their most frequent causes.
  static constexpr struct {
    const char* part;
    const char* hint;
  } kHints[] = {
      {"Connection refused", "nothing listens there: is the job running, and is the port right?"},
      {"No such file or directory", "no worker has created that socket: is the job running?"},
      {"No route to host", "is the host up, and in this network?"},
      {"etwork is unreachable", "is the host up, and in this network?"},
      {"DNS resolution failed",
       "the host's name is not known here: check its spelling, or give its address"},
      {"Domain name not found",
       "the host's name is not known here: check its spelling, or give its address"},
      {"http1.x server", "that is a web server: is the port right?"},
      {"SETTINGS", "what listens there does not speak gRPC: is the port right?"},
      {"frame of unknown type", "what listens there does not speak gRPC: is the port right?"},
      {"Socket closed", kHintForClosed},
      {"Connection reset", kHintForClosed},
      {"Broken pipe", kHintForClosed},
  };
  for (const auto& [part, hint] : kHints) {
    if (absl::StrContains(reason, part)) return absl::StrCat(reason, "; ", hint);
  }
  return reason;
}

WorkerOutcome Make(Outcome kind, Phase phase, std::string reason, const grpc::Status& status) {
  return {kind, phase, std::move(reason), static_cast<int>(status.error_code())};
}

}  // namespace

bool IsWorthRetrying(Outcome outcome) {
  return outcome == Outcome::kUnreachable || outcome == Outcome::kBusy;
}

std::string ReasonOf(const grpc::Status& status) {
  std::string text = status.error_message();
  // "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:7: Failed to connect
  // to remote host: Connection refused": only the end is informative.
  for (const char* wrapping : {"Failed to connect to remote host: ", "last error: "}) {
    const size_t at = text.rfind(wrapping);
    if (at != std::string::npos) {
      text.erase(0, at + std::char_traits<char>::length(wrapping));
      break;
    }
  }
  text = OneLine(text, kMaxReasonBytes);
  if (absl::StripAsciiWhitespace(text).empty()) {
    return absl::StrCat("no reason given (gRPC code ", static_cast<int>(status.error_code()), ")");
  }
  return text;
}

WorkerOutcome JudgeDescribe(const grpc::Status& status, bool connected, absl::Duration timeout) {
  const Phase phase = connected ? Phase::kDescribe : Phase::kConnect;
  if (IsTooLarge(status)) {
    return Make(Outcome::kFailed, phase,
                absl::StrCat("the answer to a small question is too large: ", ReasonOf(status),
                             "; does a worker listen at this address?"),
                status);
  }
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      if (!IsSilence(status)) {
        return Make(Outcome::kUnreachable, phase, WithHint(ReasonOf(status)), status);
      }
      [[fallthrough]];
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Make(Outcome::kTimeout, phase,
                  absl::StrCat(connected ? "connected, but no answer within "
                                         : "no answer to the connection within ",
                               absl::FormatDuration(timeout), "; ",
                               connected ? kHintForSilence : kHintForNoConnection),
                  status);
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      if (HasReason(status, ErrorReason::kProcessLimit)) {
        return Make(Outcome::kRefused, phase, ReasonOf(status), status);
      }
      [[fallthrough]];
    case grpc::StatusCode::ALREADY_EXISTS:
      return Make(Outcome::kBusy, phase, ReasonOf(status), status);
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::INVALID_ARGUMENT:
      return Make(Outcome::kRefused, phase, ReasonOf(status), status);
    default:
      return Make(Outcome::kFailed, phase, ReasonOf(status), status);
  }
}

WorkerOutcome JudgeCapture(const grpc::Status& status, Moment moment) {
  const Phase phase = moment == Moment::kBeforeStart ? Phase::kArm
                      : moment == Moment::kRecording ? Phase::kRecord
                                                     : Phase::kTransfer;
  if (IsTooLarge(status)) {
    return Make(Outcome::kFailed, Phase::kTransfer, TooLarge(status), status);
  }
  switch (status.error_code()) {
    case grpc::StatusCode::UNKNOWN:
      if (!absl::StrContains(status.error_message(), "Stream removed")) {
        return Make(Outcome::kFailed, phase, ReasonOf(status), status);
      }
      [[fallthrough]];
    case grpc::StatusCode::UNAVAILABLE:
      if (moment == Moment::kBeforeStart) {
        return Make(Outcome::kUnreachable, phase, WithHint(ReasonOf(status)), status);
      }
      return Make(Outcome::kDied, phase, absl::StrCat("the connection broke: ", ReasonOf(status)),
                  status);
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Make(Outcome::kTimeout, phase, ReasonOf(status), status);
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      // No other capture holds the worker: trying again would not help.
      if (HasReason(status, ErrorReason::kProcessLimit)) {
        return Make(Outcome::kRefused, Phase::kArm, ReasonOf(status), status);
      }
      [[fallthrough]];
    case grpc::StatusCode::ALREADY_EXISTS:
      return Make(Outcome::kBusy, Phase::kArm, ReasonOf(status), status);
    case grpc::StatusCode::INTERNAL:
      if (IsBusyText(status.error_message())) {
        return Make(Outcome::kBusy, Phase::kArm, ReasonOf(status), status);
      }
      return Make(Outcome::kFailed, phase, ReasonOf(status), status);
    case grpc::StatusCode::UNIMPLEMENTED:
      return Make(Outcome::kRefused, Phase::kArm,
                  "something speaks gRPC at this address, but has no profiler service", status);
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return Make(Outcome::kRefused, Phase::kArm, ReasonOf(status), status);
    default:
      return Make(Outcome::kFailed, phase, ReasonOf(status), status);
  }
}

std::string HeldBy(const v1::Busy& busy) {
  const Reported<SessionPhase> phase(busy.state());
  const std::string session = Printable(busy.session_id());
  std::string when = ", which is armed and has not begun";
  std::string advice =
      absl::StrCat("try again later, or end that one: capture stop --session_id=", session);
  if (phase == SessionPhase::kDelivering) {
    when = ", which has ended and is still being delivered";
    advice = "try again later";  // there is nothing to end
  } else if (HasBegun(phase)) {
    // One that has no planned end, or has passed it, has no time left that is known.
    when = busy.remaining_ms() > 0 ? absl::StrCat(", ", busy.remaining_ms(), " ms left") : "";
  }
  const std::string lost =
      busy.client_lost_ms() == 0
          ? ""
          : absl::StrCat(", whose connection was lost ", busy.client_lost_ms(), " ms ago");
  return absl::StrCat("busy with session '", session, "'", busy.peer().empty() ? "" : " of ",
                      Printable(busy.peer()), lost, when, "; ", advice);
}

}  // namespace jobscope
