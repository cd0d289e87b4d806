// SPDX-License-Identifier: Apache-2.0
//
// Tests captures of workers that die, end or disconnect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rpc/error_details.h"
#include "rpc/server_ended.h"
#include "tests/client/native/native_resume_fixture.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(NativeResumeTest, AWorkerThatDiesLeavesWhatCame) {
  options_.resume_timeout = absl::Seconds(4);
  {
    FakeNativeWorker fake(Breaking(60, Cut));
    Record(fake.address(), absl::Milliseconds(100));
    ASSERT_TRUE(log_->AwaitNote("trying again"));
  }
  const WorkerOutcome outcome = ExpectTruncatedFile();
  EXPECT_THAT(outcome.reason,
              HasSubstr("Connection reset by peer; then could not be reached again: "
                        "Connection refused"));
  EXPECT_EQ(account_.events, 2400u);  // of the 60 items, 12 are names and lines
  EXPECT_EQ(outcome.grpc_code, grpc::StatusCode::UNAVAILABLE);
}

TEST_F(NativeResumeTest, AServerThatHasEndedIsNotAskedAgain) {
  // Whatever its text, the detail says it.
  FakeNativeWorker fake(Breaking(60, [](FakeCapture*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "shut down", ErrorDetails(ServerEnded()));
  }));
  const absl::Time begin = absl::Now();
  Record(fake.address(), absl::Seconds(60));
  const WorkerOutcome outcome = ExpectTruncatedFile();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(20));
  EXPECT_EQ(fake.fetches(), 0);
  EXPECT_THAT(log_->notes(), IsEmpty());
  EXPECT_THAT(outcome.reason, HasSubstr("ended while recording: shut down; 0.0 s of"));
}

// Of an earlier release: without the detail, and always with this text.
TEST_F(NativeResumeTest, AnOldServerThatHasEndedIsNotAskedAgain) {
  FakeNativeWorker fake(Breaking(60, [](FakeCapture*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, kServerEndedText);
  }));
  Record(fake.address(), absl::Seconds(60));
  const WorkerOutcome outcome = ExpectTruncatedFile();
  EXPECT_EQ(fake.fetches(), 0);
  EXPECT_THAT(outcome.reason,
              HasSubstr(absl::StrCat("ended while recording: ", kServerEndedText, "; 0.0 s of")));
}

TEST_F(NativeResumeTest, OthersThatAreUnavailableAreAskedAgain) {
  // As a proxy says it that restarts.
  FakeNativeWorker::Script script = Breaking(60, [](FakeCapture*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "no healthy upstream");
  });
  script.fetch = [this](FakeFetch* fetch, int) { return Rest(fetch, Resume(fetch)); };
  FakeNativeWorker fake(script);
  Record(fake.address());
  ExpectUncutFile();
}

TEST_F(NativeResumeTest, AnEndWithAReasonLeavesWhatCame) {
  FakeNativeWorker fake(Breaking(60, [](FakeCapture* capture) {
    capture->SendEnded(60, grpc::StatusCode::ABORTED, "evicted by session 'y'");
    capture->Hang();
    return grpc::Status::OK;
  }));
  Record(fake.address(), absl::Seconds(60));
  const WorkerOutcome outcome = ExpectTruncatedFile();
  EXPECT_THAT(outcome.reason, HasSubstr("ended while recording: evicted by session 'y'"));
  EXPECT_EQ(account_.events, 2400u);
}

TEST_F(NativeResumeTest, AProcessThatIsGoneIsNotWaitedFor) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info{};
  // Nobody has taken its exit status yet.
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  FakeNativeWorker fake(Breaking(60, Cut));
  Connect(fake.address());
  Arm();
  ASSERT_TRUE(log_->AwaitArmed().ok());
  StartCall start = MakeStart(absl::Seconds(60));
  start.process_id = child;
  const absl::Time begin = absl::Now();
  worker_->Start(start);
  const WorkerOutcome outcome = ExpectTruncatedFile();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(20));
  EXPECT_EQ(fake.fetches(), 0);
  EXPECT_THAT(outcome.reason,
              HasSubstr(absl::StrCat("died while recording: Connection reset by peer; its process, "
                                     "pid ",
                                     child, ", has ended; ")));
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(NativeResumeTest, AProcessThatLivesIsWaitedFor) {
  FakeNativeWorker::Script script = Breaking(40, Cut);
  script.fetch = [this](FakeFetch* fetch, int) { return Rest(fetch, Resume(fetch)); };
  FakeNativeWorker fake(script);
  Connect(fake.address());
  Arm();
  ASSERT_TRUE(log_->AwaitArmed().ok());
  StartCall start = MakeStart(absl::Seconds(3));
  start.process_id = getpid();
  worker_->Start(start);
  ExpectUncutFile();
}

// Ctrl-C while a connection is lost: the planned end, an hour ahead, is nobody's business any more.
TEST_F(NativeResumeTest, AStopEndsTheWaitForALostConnection) {
  options_.resume_timeout = absl::Milliseconds(500);
  {
    FakeNativeWorker fake(Breaking(60, Cut));
    Record(fake.address(), absl::Hours(1));
    ASSERT_TRUE(log_->AwaitNote("trying again"));
  }
  const absl::Time begin = absl::Now();
  worker_->Stop("run", absl::Seconds(1), [](const grpc::Status&, bool) {});
  ExpectTruncatedFile();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(20));
}

// The recording ends at the limit, so the planned end, an hour ahead, counts no more.
TEST_F(NativeResumeTest, ALimitEndsTheWaitForALostConnection) {
  options_.max_trace_bytes = 5'000;
  options_.resume_timeout = absl::Seconds(1);
  bool abandon = true;
  FakeNativeWorker::Script script = Breaking(60, [&abandon](FakeCapture* capture) {
    EXPECT_TRUE(capture->AwaitFinish(&abandon));
    return kCut;
  });
  script.fetch = [](FakeFetch*, int) { return kCut; };
  FakeNativeWorker fake(script);
  Record(fake.address(), absl::Hours(1));
  const WorkerOutcome outcome = ExpectTruncatedFile();
  EXPECT_FALSE(abandon);
  EXPECT_THAT(outcome.reason, HasSubstr("; the trace reached --max_trace_mb="));
}

}  // namespace
}  // namespace jobscope
