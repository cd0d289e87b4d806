// SPDX-License-Identifier: Apache-2.0
#include "client/worker/worker_outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "rpc/error_details.h"

namespace jobscope {
namespace {

using grpc::Status;
using grpc::StatusCode;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

struct DescribeCase {
  StatusCode code;
  const char* text;
  bool connected;
  Outcome outcome;
  Phase phase;
  const char* reason;
};

class DescribeFailure : public ::testing::TestWithParam<DescribeCase> {};

TEST_P(DescribeFailure, IsJudged) {
  const DescribeCase& c = GetParam();
  const WorkerOutcome outcome =
      JudgeDescribe(Status(c.code, c.text), c.connected, absl::Seconds(5));
  EXPECT_STREQ(Name(outcome.kind), Name(c.outcome));
  EXPECT_STREQ(Name(outcome.phase), Name(c.phase));
  EXPECT_THAT(outcome.reason, HasSubstr(c.reason));
  EXPECT_EQ(outcome.grpc_code, static_cast<int>(c.code));
}

INSTANTIATE_TEST_SUITE_P(
    Table, DescribeFailure,
    ::testing::Values(
        DescribeCase{StatusCode::UNAVAILABLE,
                     "failed to connect to all addresses; last error: UNKNOWN: ipv4:1.2.3.4:5: "
                     "Failed to connect to remote host: Connection refused",
                     false, Outcome::kUnreachable, Phase::kConnect, "Connection refused"},
        DescribeCase{StatusCode::UNAVAILABLE, "DNS resolution failed for x:1", false,
                     Outcome::kUnreachable, Phase::kConnect, "DNS resolution failed for x:1"},
        DescribeCase{StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded", false, Outcome::kTimeout,
                     Phase::kConnect,
                     "no answer to the connection within 5s; is a firewall between, the host down, "
                     "or the process "
                     "stopped or without free descriptors?"},
        DescribeCase{StatusCode::UNAVAILABLE,
                     "failed to connect to all addresses; last error: UNKNOWN: ipv4:1.2.3.4:5: "
                     "connection attempt timed out before receiving SETTINGS frame",
                     false, Outcome::kTimeout, Phase::kConnect,
                     "no answer to the connection within 5s; is a firewall between, the host down, "
                     "or the process "
                     "stopped or without free descriptors?"},
        DescribeCase{
            StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded", true, Outcome::kTimeout,
            Phase::kDescribe,
            "connected, but no answer within 5s; is its process stopped, without a free thread, or "
            "without a processor?"},
        DescribeCase{StatusCode::RESOURCE_EXHAUSTED, "too many calls", true, Outcome::kBusy,
                     Phase::kDescribe, "too many calls"},
        DescribeCase{StatusCode::UNAUTHENTICATED, "token", true, Outcome::kRefused,
                     Phase::kDescribe, "token"},
        DescribeCase{StatusCode::INTERNAL, "", true, Outcome::kFailed, Phase::kDescribe,
                     "gRPC code 13"}));

TEST(WorkerOutcome, ConnectionsThatFailHaveARemedy) {
  const struct {
    const char* text;
    const char* hint;
  } cases[] = {
      {"ipv4:1.2.3.4:5: Connection refused", "is the job running, and is the port right?"},
      {"unix:/run/s: No such file or directory", "no worker has created that socket"},
      {"connect: No route to host", "is the host up, and in this network?"},
      {"connect: Network is unreachable", "is the host up, and in this network?"},
      {"DNS resolution failed for x:1: C-ares status is not ARES_SUCCESS",
       "the host's name is not known here"},
      {"Domain name not found", "the host's name is not known here"},
      {"Trying to connect an http1.x server", "that is a web server: is the port right?"},
      {"Expected SETTINGS frame as the first frame, got frame type 80", "does not speak gRPC"},
      {"Socket closed", "does the worker require TLS (--tls_ca)"},
      {"recvmsg: Connection reset by peer", "does the worker require TLS (--tls_ca)"},
      {"Broken pipe", "does the worker require TLS (--tls_ca)"},
  };
  for (const auto& [text, hint] : cases) {
    const Status status(StatusCode::UNAVAILABLE, text);
    for (const WorkerOutcome& outcome : {JudgeDescribe(status, false, absl::Seconds(5)),
                                         JudgeCapture(status, Moment::kBeforeStart)}) {
      EXPECT_THAT(outcome.reason, AllOf(HasSubstr(text), HasSubstr(hint)));
    }
  }
}

struct CaptureCase {
  StatusCode code;
  const char* text;
  Moment moment;
  Outcome outcome;
  Phase phase;
};

class CaptureFailure : public ::testing::TestWithParam<CaptureCase> {};

TEST_P(CaptureFailure, IsJudged) {
  const CaptureCase& c = GetParam();
  const WorkerOutcome outcome = JudgeCapture(Status(c.code, c.text), c.moment);
  EXPECT_STREQ(Name(outcome.kind), Name(c.outcome));
  EXPECT_STREQ(Name(outcome.phase), Name(c.phase));
  EXPECT_FALSE(outcome.reason.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Table, CaptureFailure,
    ::testing::Values(CaptureCase{StatusCode::UNAVAILABLE, "Socket closed", Moment::kRecording,
                                  Outcome::kDied, Phase::kRecord},
                      CaptureCase{StatusCode::UNKNOWN, "Stream removed", Moment::kAfterEnd,
                                  Outcome::kDied, Phase::kTransfer},
                      CaptureCase{StatusCode::UNKNOWN, "exception", Moment::kRecording,
                                  Outcome::kFailed, Phase::kRecord},
                      CaptureCase{StatusCode::UNAVAILABLE, "Socket closed", Moment::kBeforeStart,
                                  Outcome::kUnreachable, Phase::kArm},
                      CaptureCase{StatusCode::INTERNAL, "Another profiling session active.",
                                  Moment::kRecording, Outcome::kBusy, Phase::kArm},
                      CaptureCase{StatusCode::ALREADY_EXISTS, "busy", Moment::kRecording,
                                  Outcome::kBusy, Phase::kArm},
                      CaptureCase{StatusCode::RESOURCE_EXHAUSTED, "this worker has 256 calls open",
                                  Moment::kBeforeStart, Outcome::kBusy, Phase::kArm},
                      CaptureCase{StatusCode::INTERNAL, "boom", Moment::kAfterEnd, Outcome::kFailed,
                                  Phase::kTransfer},
                      CaptureCase{StatusCode::UNIMPLEMENTED, "", Moment::kRecording,
                                  Outcome::kRefused, Phase::kArm},
                      CaptureCase{StatusCode::INVALID_ARGUMENT, "opts.duration_ms",
                                  Moment::kRecording, Outcome::kRefused, Phase::kArm},
                      CaptureCase{StatusCode::DEADLINE_EXCEEDED, "", Moment::kAfterEnd,
                                  Outcome::kTimeout, Phase::kTransfer},
                      CaptureCase{
                          StatusCode::RESOURCE_EXHAUSTED,
                          "CLIENT: Received message larger than max (2202009629 vs. 2147483647)",
                          Moment::kAfterEnd, Outcome::kFailed, Phase::kTransfer}));

// Unlike a worker that is busy, it would refuse again.
TEST(WorkerOutcome, ALimitOfTheProcessIsARefusal) {
  const absl::Status limit =
      WithReason(absl::ResourceExhaustedError("no room"), ErrorReason::kProcessLimit);
  for (const bool with_reason : {true, false}) {
    const Status status(StatusCode::RESOURCE_EXHAUSTED, "no room; raise it",
                        with_reason ? ErrorDetails(limit) : "");
    const WorkerOutcome captured = JudgeCapture(status, Moment::kBeforeStart);
    EXPECT_STREQ(Name(captured.kind), with_reason ? "refused" : "busy");
    EXPECT_STREQ(Name(captured.phase), "arm");
    // A server that is to close needs a thread for that.
    const WorkerOutcome asked = JudgeDescribe(status, /*connected=*/true, absl::Seconds(5));
    EXPECT_STREQ(Name(asked.kind), with_reason ? "refused" : "busy");
    EXPECT_STREQ(Name(asked.phase), "describe");
  }
}

TEST(WorkerOutcome, TooLargeRepeatsNoControlCharacters) {
  const WorkerOutcome outcome = JudgeCapture(
      Status(StatusCode::RESOURCE_EXHAUSTED, "\x1b[2JReceived message larger than max (9 vs. 8)"),
      Moment::kAfterEnd);
  EXPECT_THAT(outcome.reason, Not(HasSubstr("\x1b")));
}

TEST(WorkerOutcome, TooLargeSaysWhatToDo) {
  const WorkerOutcome outcome = JudgeCapture(
      Status(StatusCode::RESOURCE_EXHAUSTED, "Received message larger than max (9 vs. 8)"),
      Moment::kAfterEnd);
  EXPECT_THAT(outcome.reason, HasSubstr("shorter time"));
  EXPECT_FALSE(IsWorthRetrying(outcome.kind));
}

TEST(WorkerOutcome, WhoHoldsAWorkerIsNamedPrintably) {
  v1::Busy busy;
  busy.set_session_id("night\n");
  busy.set_peer("10.0.0.7");
  busy.set_remaining_ms(20);
  EXPECT_EQ(HeldBy(busy),
            "busy with session 'night?' of 10.0.0.7, 20 ms left; try again later, or end that one: "
            "capture stop --session_id=night?");
  // Nobody knows when it will begin: no number.
  busy.set_state("armed");
  EXPECT_THAT(HeldBy(busy), HasSubstr("of 10.0.0.7, which is armed and has not begun; try again"));
  EXPECT_THAT(HeldBy(busy), Not(HasSubstr(" ms ")));
  // A capture of steps has no planned end.
  busy.set_state("recording");
  busy.set_remaining_ms(0);
  EXPECT_THAT(HeldBy(busy), HasSubstr("of 10.0.0.7; try again"));
  // There is nothing left to end.
  busy.set_state("delivering");
  EXPECT_THAT(HeldBy(busy), EndsWith("is still being delivered; try again later"));
  EXPECT_THAT(HeldBy(busy), Not(HasSubstr("capture stop")));
}

// What a worker says about silence is for people already.
TEST(WorkerOutcome, ATimeoutKeepsTheWorkersText) {
  const WorkerOutcome outcome = JudgeCapture(
      Status(StatusCode::DEADLINE_EXCEEDED, "no sign of life for 7s"), Moment::kAfterEnd);
  EXPECT_STREQ(Name(outcome.kind), "timeout");
  EXPECT_EQ(outcome.reason, "no sign of life for 7s");
}

TEST(WorkerOutcome, ReasonsAreOneLine) {
  const std::string reason =
      ReasonOf(Status(StatusCode::INTERNAL, "a\nb\x1b[31m" + std::string(5000, 'x')));
  EXPECT_LT(reason.size(), 500u);
  EXPECT_EQ(reason.find('\n'), std::string::npos);
  EXPECT_EQ(reason.find('\x1b'), std::string::npos);
}

TEST(WorkerOutcome, OnlyWhatHasRecordedNothingIsRetried) {
  for (const Outcome outcome : {Outcome::kDied, Outcome::kTimeout, Outcome::kFailed,
                                Outcome::kRefused, Outcome::kEmpty, Outcome::kTruncated}) {
    EXPECT_FALSE(IsWorthRetrying(outcome)) << Name(outcome);
  }
  EXPECT_TRUE(IsWorthRetrying(Outcome::kBusy));
  EXPECT_TRUE(IsWorthRetrying(Outcome::kUnreachable));
}

}  // namespace
}  // namespace jobscope
