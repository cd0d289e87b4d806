// SPDX-License-Identifier: Apache-2.0
//
// Tests captures whose connection is lost, and workers that send invalid messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/client/native/native_resume_fixture.h"
#include "tests/end_to_end/tcp_proxy.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(NativeResumeTest, ALostStreamIsTakenUpBehindTheLastItem) {
  FakeNativeWorker::Script script = Breaking(40, Cut);
  size_t wanted = 0;
  script.fetch = [this, &wanted](FakeFetch* fetch, int) {
    wanted = Resume(fetch);
    return Rest(fetch, wanted);
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  ExpectUncutFile();
  EXPECT_EQ(wanted, 40u);
  EXPECT_THAT(account_.warnings, ElementsAre(HasSubstr("the connection was lost once, for ")));
  EXPECT_THAT(account_.warnings, ElementsAre(HasSubstr("; nothing is missing")));
  EXPECT_THAT(log_->notes(), ElementsAre(HasSubstr("MiB (Connection reset by peer); trying again"),
                                         HasSubstr("connected again after ")));
}

// The worker tells that it ended the recording meanwhile, or what it could not keep.
TEST_F(NativeResumeTest, WhatIsMissingAfterALossIsNotDenied) {
  v1::Summary ended = MakeSummary(4000);
  ended.set_truncated(true);
  ended.set_ended_by("client_lost");
  for (const v1::Summary& summary : {ended, MakeSummary(4000, 5)}) {
    std::vector<FakeItem> items = items_;
    items.back().body = summary.SerializeAsString();
    FakeNativeWorker::Script script = Breaking(40, Cut);
    script.fetch = [&items](FakeFetch* fetch, int) {
      fetch->SendItems(items, Resume(fetch));
      fetch->SendEnded(items.size());
      fetch->AwaitAck(items.size());
      return grpc::Status::OK;
    };
    FakeNativeWorker fake(script);
    Record(fake.address());
    EXPECT_TRUE(log_->AwaitEnded().ok());
    const WorkerOutcome outcome = Write();
    EXPECT_EQ(outcome.kind, summary.truncated() ? Outcome::kTruncated : Outcome::kOk);
    EXPECT_THAT(account_.warnings, Contains(HasSubstr("the connection was lost once, for ")));
    EXPECT_THAT(account_.warnings, Not(Contains(HasSubstr("nothing is missing"))));
    worker_.reset();
    std::filesystem::remove(run_->path() + "/worker.xplane.pb");
  }
}

TEST_F(NativeResumeTest, AlsoManyTimes) {
  FakeNativeWorker::Script script = Breaking(10, Cut);
  script.fetch = [this](FakeFetch* fetch, int) {
    const size_t wanted = Resume(fetch);
    if (wanted > items_.size() - 10) return Rest(fetch, wanted);
    fetch->SendItems(items_, wanted, wanted + 17);
    return kCut;
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  ExpectUncutFile();
  EXPECT_GE(fake.fetches(), 4);
  EXPECT_THAT(account_.warnings, ElementsAre(HasSubstr(" times, for ")));
}

TEST_F(NativeResumeTest, ItemsThatComeTwiceAreTakenOnce) {
  FakeNativeWorker::Script script = Breaking(30, Cut);
  script.fetch = [this](FakeFetch* fetch, int) {
    EXPECT_EQ(Resume(fetch), 30u);
    return Rest(fetch, 11);
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  ExpectUncutFile();
}

TEST_F(NativeResumeTest, AMissingItemIsAskedForAgain) {
  FakeNativeWorker::Script script = Breaking(20, [this](FakeCapture* capture) {
    capture->SendItems(items_, 23, 30);
    capture->Hang();
    return grpc::Status::OK;
  });
  script.fetch = [this](FakeFetch* fetch, int) {
    const size_t wanted = Resume(fetch);
    EXPECT_EQ(wanted, 20u);
    return Rest(fetch, wanted);
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  ExpectUncutFile();
  EXPECT_THAT(log_->notes(), Contains(HasSubstr("item 24 where item 21 is due")));
}

TEST_F(NativeResumeTest, GarbageIsAskedForAgain) {
  for (const std::string& garbage :
       {std::string("\x22\xff\xff\xff\xff\x7f"), std::string("\x22\x05\x0a\x7fxyz"),
        std::string("\xff\xff\xff\xff\xff\xff"), std::string("\x1a\x02\xff\xff"),
        std::string(100'000, '\x0a')}) {
    FakeNativeWorker::Script script = Breaking(20, [garbage](FakeCapture* capture) {
      capture->SendRaw(garbage);
      capture->Hang();
      return grpc::Status::OK;
    });
    script.fetch = [this](FakeFetch* fetch, int) { return Rest(fetch, Resume(fetch)); };
    FakeNativeWorker fake(script);
    Record(fake.address());
    ExpectUncutFile();
    EXPECT_EQ(fake.fetches(), 1);
    worker_.reset();
    std::filesystem::remove(run_->path() + "/worker.xplane.pb");
  }
}

TEST_F(NativeResumeTest, GarbageTwiceEndsItWithWhatThereIs) {
  FakeNativeWorker::Script script = Breaking(60, [](FakeCapture* capture) {
    capture->SendRaw("\x22\x05\x0a\x7fxyz");
    capture->Hang();
    return grpc::Status::OK;
  });
  script.fetch = [](FakeFetch* fetch, int) {
    Resume(fetch);
    fetch->SendProgress(1);
    fetch->SendRaw("\x22\x05\x0a\x7fxyz");
    fetch->Hang();
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Record(fake.address(), absl::Seconds(60));
  EXPECT_THAT(ExpectTruncatedFile().reason, HasSubstr("items that cannot be read"));
  EXPECT_EQ(fake.fetches(), 1);
}

TEST_F(NativeResumeTest, AWorkerThatHasReleasedItSaysWhy) {
  FakeNativeWorker::Script script = Breaking(60, Cut);
  script.fetch = [](FakeFetch* fetch, int) {
    Resume(fetch);
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "the next session took the place");
  };
  FakeNativeWorker fake(script);
  Record(fake.address(), absl::Seconds(60));
  const WorkerOutcome outcome = ExpectTruncatedFile();
  EXPECT_THAT(outcome.reason, HasSubstr("died while recording: Connection reset by peer; then the "
                                        "next session took the place; 0.0 s of 60.0 s arrived"));
  EXPECT_EQ(outcome.phase, Phase::kRecord);
  EXPECT_EQ(outcome.grpc_code, grpc::StatusCode::NOT_FOUND);
}

// The trace is overdue while the disk hangs: there is nothing to do but to wait for the disk.
TEST_F(NativeResumeTest, ADiskThatHangsIsWaitedForIdly) {
  absl::Notification released;
  // More than the pool has threads: what comes for the disk waits behind them.
  for (int i = 0; i < 8; ++i) disk_.Run([&released] { released.WaitForNotification(); });
  FakeNativeWorker fake(Breaking(60, [&released](FakeCapture*) {
    released.WaitForNotification();
    return grpc::Status::OK;
  }));
  Connect(fake.address());
  Arm();
  ASSERT_TRUE(log_->AwaitArmed().ok());
  StartCall start = MakeStart(absl::Milliseconds(50));
  start.transfer = absl::Milliseconds(50);
  worker_->Start(start);
  const auto switches = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
  };
  // Over its deadline by then, on any machine that is not stopped.
  absl::SleepFor(absl::Milliseconds(500));
  const int64_t before = switches();
  absl::SleepFor(absl::Seconds(1));
  EXPECT_LT(switches() - before, 200) << "something looks again and again";
  released.Notify();
  EXPECT_FALSE(log_->AwaitEnded().ok());
}

TEST_F(NativeResumeTest, AStopIsSentOverAResumedStream) {
  FakeNativeWorker::Script script = Breaking(40, Cut);
  absl::Notification stopped;
  bool reported = false;
  script.fetch = [this, &stopped, &reported](FakeFetch* fetch, int) {
    const size_t wanted = Resume(fetch);
    fetch->SendProgress(1);
    stopped.WaitForNotification();
    bool abandon = true;
    reported = fetch->AwaitFinish(&abandon) && !abandon;
    return Rest(fetch, wanted);
  };
  FakeNativeWorker fake(script);
  Record(fake.address(), absl::Hours(1));
  ASSERT_TRUE(log_->AwaitNote("connected again"));
  worker_->Stop("run", absl::Seconds(1), [](const grpc::Status&, bool) {});
  stopped.Notify();
  ExpectUncutFile();
  EXPECT_TRUE(reported);
}

TEST_F(NativeResumeTest, ProgressWithoutAPauseIsLeftOutMostly) {
  FakeNativeWorker fake(Breaking(40, [this](FakeCapture* capture) {
    for (int i = 0; i < 20'000; ++i) capture->SendProgress(1);
    return Rest(capture, 40);
  }));
  const absl::Time begin = absl::Now();
  Record(fake.address());
  ExpectUncutFile();
  const auto most = static_cast<size_t>((absl::Now() - begin) / absl::Milliseconds(20)) + 2;
  EXPECT_LE(log_->progress(), std::min<size_t>(most, 10'000));
  EXPECT_GE(log_->progress(), 1u);
}

TEST_F(NativeResumeTest, WithoutAnyEventNothingIsDelivered) {
  options_.resume_timeout = absl::Milliseconds(200);
  {
    FakeNativeWorker fake(Breaking(2, Cut));
    Record(fake.address(), absl::Milliseconds(100));
    ASSERT_TRUE(log_->AwaitNote("trying again"));
  }
  EXPECT_EQ(log_->AwaitEnded().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(log_->TakeDelivery(), nullptr);
}

TEST_F(NativeResumeTest, ARefusalOfTheStartIsNotAskedForAgain) {
  FakeNativeWorker::Script script = Breaking(0, [](FakeCapture*) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "duration_ns: 0 is not within 1..");
  });
  FakeNativeWorker fake(script);
  Record(fake.address());
  const grpc::Status ended = log_->AwaitEnded();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ended.error_message(), "duration_ns: 0 is not within 1..");
  EXPECT_EQ(fake.fetches(), 0);
  EXPECT_THAT(log_->notes(), IsEmpty());
}

TEST_F(NativeResumeTest, AStreamThatClosesWithoutAnEndIsLost) {
  FakeNativeWorker::Script script = Breaking(20, [](FakeCapture*) { return grpc::Status::OK; });
  script.fetch = [this](FakeFetch* fetch, int) { return Rest(fetch, Resume(fetch)); };
  FakeNativeWorker fake(script);
  Record(fake.address());
  ExpectUncutFile();
  EXPECT_THAT(log_->notes(), Contains(HasSubstr("closed the stream before its end")));
}

TEST_F(NativeResumeTest, AfterTheSummaryNothingIsMissing) {
  FakeNativeWorker fake(Breaking(SIZE_MAX, Cut));
  Record(fake.address());
  ExpectUncutFile();
  EXPECT_EQ(fake.fetches(), 0);
}

TEST_F(NativeResumeTest, ATransferThatTakesTooLongIsCutOff) {
  FakeNativeWorker::Script script = Breaking(60, [](FakeCapture* capture) {
    // Alive, but no more items.
    while (capture->SendProgress(1)) {
      v1::CaptureRequest request;
      if (!capture->Read(&request)) break;
    }
    return grpc::Status::OK;
  });
  FakeNativeWorker fake(script);
  Connect(fake.address());
  Arm();
  ASSERT_TRUE(log_->AwaitArmed().ok());
  StartCall start = MakeStart(absl::Milliseconds(10));
  start.transfer = absl::Seconds(4);
  worker_->Start(start);
  const WorkerOutcome outcome = ExpectTruncatedFile();
  EXPECT_EQ(outcome.grpc_code, grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(outcome.phase, Phase::kTransfer);
  EXPECT_THAT(outcome.reason, HasSubstr("--transfer_timeout_ms"));
}

TEST_F(NativeResumeTest, CancelWhileTheConnectionIsLost) {
  FakeNativeWorker::Script script = Breaking(60, Cut);
  script.fetch = [](FakeFetch* fetch, int) {
    fetch->Hang();
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Record(fake.address(), absl::Seconds(60));
  ASSERT_TRUE(log_->AwaitNote("trying again"));
  worker_->Cancel();
  EXPECT_EQ(log_->AwaitEnded().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(NativeResumeTest, AProxyThatCutsBothWaysAndComesBack) {
  // The worker goes on where the client wants it to, whatever became of the stream.
  absl::Notification half;
  absl::Notification cut;
  FakeNativeWorker::Script script = Breaking(40, [&half, &cut](FakeCapture* capture) {
    half.Notify();
    cut.WaitForNotification();
    capture->Hang();
    return grpc::Status::OK;
  });
  script.fetch = [this](FakeFetch* fetch, int) { return Rest(fetch, Resume(fetch)); };
  FakeNativeWorker fake(script);
  TcpProxy proxy(fake.address());
  Record(proxy.address(), absl::Seconds(60));
  half.WaitForNotification();
  ASSERT_TRUE(log_->AwaitStarted());
  proxy.Cut();
  cut.Notify();
  ASSERT_TRUE(log_->AwaitNote("trying again"));
  // Comes back on the same port while attempts are under way.
  const absl::Time back = absl::Now() + absl::Seconds(1);
  EXPECT_FALSE(log_->AwaitNoteUntil("connected again", back));
  proxy.Restore();
  ExpectUncutFile();
  EXPECT_THAT(account_.warnings, ElementsAre(HasSubstr("the connection was lost once, for ")));
}

}  // namespace
}  // namespace jobscope
