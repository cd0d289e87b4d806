// SPDX-License-Identifier: Apache-2.0
//
// Tests a client on slow links and on dead links, while nothing arrives. Time limits and traces are
// shorter here; tests/end_to_end/slow_link_test.cc has the real figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/clock/monotonic.h"
#include "tensorflow/xplane.pb.h"
#include "tests/client/fake_native_worker.h"
#include "tests/client/native/native_fixture.h"
#include "tests/end_to_end/tcp_proxy.h"

namespace jobscope {
namespace {

using ::testing::IsEmpty;

constexpr size_t kRawBytes = 1'000'000;
constexpr size_t kChunkBytes = 64 << 10;

class NativeSlowLinkTest : public NativeWorkerTest {
 protected:
  NativeSlowLinkTest() : items_(MakeItems(1, 1, 10, false)) {
    options_.timeouts.silence = absl::Milliseconds(400);
    tensorflow::profiler::XPlane plane;
    plane.set_name("/device:TPU:0");
    plane.add_lines()->set_name(std::string(kRawBytes, 'x'));
    FakeItem raw{items_.size() + 1, xspace::ItemKind::kRawPlane, ""};
    protozero::pbf_writer(raw.body).add_message(1, plane.SerializeAsString());
    raw_ = items_.size();
    items_.push_back(raw);
    items_.push_back(
        {items_.size() + 1, xspace::ItemKind::kSummary, MakeSummary(10).SerializeAsString()});
  }

  template <typename Stream>
  grpc::Status End(Stream* stream) {
    stream->SendItems(items_, raw_ + 1);
    stream->SendEnded(items_.size());
    stream->AwaitAck(items_.size());
    return grpc::Status::OK;
  }
  void ExpectWholeTrace() {
    EXPECT_TRUE(log_->AwaitEnded().ok());
    const WorkerOutcome outcome = Write();
    EXPECT_EQ(outcome.kind, Outcome::kOk) << outcome.reason;
    EXPECT_EQ(account_.events, 10u);
    EXPECT_GT(File().size(), kRawBytes);
  }

  // Lets the client's disk stall, with a message to write, until the time limit of the transfer has
  // passed; then the worker does `rest`. Returns how the capture ended.
  grpc::Status EndAfterDiskStall(const std::function<grpc::Status(FakeCapture*)>& rest) {
    // Also how long the machine may stand still after the stall.
    const absl::Duration transfer = absl::Seconds(2);
    options_.timeouts.repeat_ack = absl::Milliseconds(50);
    absl::Notification spooled;
    absl::Notification blocked;
    absl::Notification waits;
    const auto over = std::make_shared<absl::Notification>();  // the pool may see it last
    FakeNativeWorker::Script script;
    script.capture = [&](FakeCapture* capture) {
      FakeNativeWorker::Begin(capture);
      capture->SendItems(items_, 0, raw_);
      EXPECT_TRUE(capture->AwaitAck(raw_));
      spooled.Notify();
      blocked.WaitForNotification();
      capture->SendItems(items_, raw_, raw_ + 1);
      // Acknowledgements are repeated only while the client waits for its disk, by timers like that
      // of the deadline.
      v1::CaptureRequest request;
      uint64_t finish_ns = 0;
      for (int late_acks = 0; late_acks < 3 && capture->Read(&request);) {
        if (request.has_finish()) {
          finish_ns = MonotonicNow();
        } else if (finish_ns != 0) {
          late_acks += MonotonicNow() > finish_ns + DurationNs(transfer) ? 1 : 0;
        } else if (!waits.HasBeenNotified()) {
          waits.Notify();
        }
      }
      over->Notify();
      return rest(capture);
    };
    FakeNativeWorker fake(script);
    Record(fake.address(), absl::Seconds(60), transfer);
    spooled.WaitForNotification();
    // Both of its threads.
    for (int i = 0; i < 2; ++i) disk_.Run([over] { over->WaitForNotification(); });
    blocked.Notify();
    EXPECT_TRUE(waits.WaitForNotificationWithTimeout(NativeLog::kTimeout));
    // The time limit counts from here.
    worker_->Stop("run", absl::Seconds(5), [](const grpc::Status&, bool) {});
    EXPECT_TRUE(over->WaitForNotificationWithTimeout(NativeLog::kTimeout));
    if (!over->HasBeenNotified()) over->Notify();
    return log_->AwaitEnded();
  }

  std::vector<FakeItem> items_;
  size_t raw_ = 0;
};

// Five times as long in coming as a stream may be silent. As workers of the first release send it.
TEST_F(NativeSlowLinkTest, ALargeMessageOfALivingWorkerIsNoSilence) {
  FakeNativeWorker::Script script;
  script.capture = [this](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendItems(items_, 0, raw_ + 1);
    return End(capture);
  };
  FakeNativeWorker fake(script);
  TcpProxy proxy(fake.address());
  proxy.LimitRate(kRawBytes / 2);
  Record(proxy.address(), absl::Milliseconds(1));
  ExpectWholeTrace();
  EXPECT_EQ(fake.fetches(), 0);
  EXPECT_THAT(log_->notes(), IsEmpty());
}

// In pieces something comes all the time, and nobody has to be asked.
TEST_F(NativeSlowLinkTest, PiecesAreSignsOfLife) {
  options_.timeouts.silence = absl::Seconds(4);    // less than all of it takes
  options_.timeouts.probe = absl::ZeroDuration();  // every probe fails
  v1::Arm arm;
  FakeNativeWorker::Script script;
  script.capture = [this, &arm](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture, nullptr, &arm);
    capture->SendItems(items_, 0, raw_);
    capture->SendChunks(items_[raw_], kChunkBytes);
    return End(capture);
  };
  FakeNativeWorker fake(script);
  TcpProxy proxy(fake.address());
  proxy.LimitRate(kRawBytes / 8);
  Record(proxy.address(), absl::Milliseconds(1));
  ExpectWholeTrace();
  EXPECT_TRUE(arm.chunks());
  EXPECT_THAT(log_->notes(), IsEmpty());
}

TEST_F(NativeSlowLinkTest, AnItemIsTakenUpInItsMiddle) {
  FakeNativeWorker::Script script;
  script.capture = [this](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendItems(items_, 0, raw_);
    FakeItem half = items_[raw_];
    half.body.resize(6 * kChunkBytes);
    v1::CaptureResponse response;
    for (size_t offset = 0; offset < half.body.size(); offset += kChunkBytes) {
      v1::Chunk& chunk = *response.mutable_chunk();
      chunk.set_number(half.number);
      chunk.set_kind(static_cast<uint32_t>(half.kind));
      chunk.set_body_bytes(items_[raw_].body.size());
      chunk.set_offset(offset);
      chunk.set_data(half.body.substr(offset, kChunkBytes));
      capture->Send(response);
    }
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "Connection reset by peer");
  };
  v1::Resume resume;
  script.fetch = [this, &resume](FakeFetch* fetch, int) {
    v1::FetchRequest request;
    EXPECT_TRUE(fetch->Read(&request));
    resume = request.resume();
    fetch->SendChunks(items_[raw_], kChunkBytes, resume.next_offset());
    return End(fetch);
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  ExpectWholeTrace();
  EXPECT_TRUE(resume.chunks());
  EXPECT_EQ(resume.next_item(), items_[raw_].number);
  EXPECT_GT(resume.next_offset(), 0u);
}

// A worker that knows nothing of pieces begins the item anew.
TEST_F(NativeSlowLinkTest, AnItemThatWasBegunMayComeWhole) {
  FakeNativeWorker::Script script;
  script.capture = [this](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendItems(items_, 0, raw_);
    v1::CaptureResponse response;
    v1::Chunk& chunk = *response.mutable_chunk();
    chunk.set_number(items_[raw_].number);
    chunk.set_kind(static_cast<uint32_t>(items_[raw_].kind));
    chunk.set_body_bytes(items_[raw_].body.size());
    chunk.set_data(std::string(kChunkBytes, 'y'));
    capture->Send(response);
    capture->SendItems(items_, raw_, raw_ + 1);
    return End(capture);
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  ExpectWholeTrace();
}

TEST_F(NativeSlowLinkTest, PiecesThatDoNotFitAreFaults) {
  for (const int fault : {0, 1, 2, 3}) {
    FakeNativeWorker::Script script;
    script.capture = [this, fault](FakeCapture* capture) {
      FakeNativeWorker::Begin(capture);
      capture->SendItems(items_, 0, raw_);
      v1::CaptureResponse response;
      v1::Chunk& chunk = *response.mutable_chunk();
      chunk.set_number(items_[raw_].number + (fault == 0 ? 1 : 0));
      chunk.set_kind(static_cast<uint32_t>(items_[raw_].kind));
      chunk.set_body_bytes(fault == 1 ? uint64_t{1} << 60 : 100);
      chunk.set_offset(fault == 2 ? 50 : 0);
      chunk.set_data(std::string(fault == 3 ? 101 : 10, 'y'));
      capture->Send(response);
      capture->Hang();
      return grpc::Status::OK;
    };
    script.fetch = [this](FakeFetch* fetch, int) {
      v1::FetchRequest request;
      EXPECT_TRUE(fetch->Read(&request));
      fetch->SendItems(items_, request.resume().next_item() - 1);
      fetch->SendEnded(items_.size());
      fetch->AwaitAck(items_.size());
      return grpc::Status::OK;
    };
    FakeNativeWorker fake(script);
    Record(fake.address());
    ExpectWholeTrace();
    EXPECT_EQ(fake.fetches(), 1) << fault;
    std::filesystem::remove(run_->path() + "/worker.xplane.pb");
  }
}

// The message is complete only long after the time to reach the worker again is over.
TEST_F(NativeSlowLinkTest, ALostStreamThatIsTakenUpOverASlowLinkIsNotGivenUp) {
  options_.timeouts.silence = absl::Minutes(1);
  options_.timeouts.probe = absl::Seconds(20);
  options_.resume_timeout = absl::Seconds(1);
  FakeNativeWorker::Script script;
  script.capture = [this](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendItems(items_, 0, raw_);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "Connection reset by peer");
  };
  script.fetch = [this](FakeFetch* fetch, int) {
    v1::FetchRequest request;
    EXPECT_TRUE(fetch->Read(&request));
    fetch->SendItems(items_, request.resume().next_item() - 1, raw_ + 1);
    return End(fetch);
  };
  FakeNativeWorker fake(script);
  TcpProxy proxy(fake.address());
  proxy.LimitRate(kRawBytes / 4);
  Record(proxy.address(), absl::Milliseconds(1));
  ExpectWholeTrace();
  EXPECT_EQ(fake.fetches(), 1);
}

// Each probe takes a connection: behind a dead switch a thousand workers are silent.
TEST_F(NativeSlowLinkTest, FewWorkersAreProbedAtATime) {
  constexpr size_t kWorkers = 8;
  options_.timeouts.probe = absl::Minutes(5);
  options_.timeouts.max_probes = 1;
  FakeNativeWorker::Script script;
  script.capture = [](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendStarted();
    capture->Hang();
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  TcpProxy proxy(fake.address());
  std::vector<std::unique_ptr<NativeWorker>> workers;
  std::vector<std::shared_ptr<NativeLog>> logs;
  for (size_t i = 0; i < kWorkers; ++i) {
    Record(proxy.address(), absl::Hours(1));
    ASSERT_TRUE(log_->AwaitStarted());
    workers.push_back(std::move(worker_));
    logs.push_back(log_);
  }
  const auto await_connections = [&proxy](uint64_t count) {
    const absl::Time deadline = absl::Now() + NativeLog::kTimeout;
    while (proxy.connections() < count && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    return proxy.connections() >= count;
  };
  // One after the other is silent, and answers.
  ASSERT_TRUE(await_connections(proxy.connections() + 2 * kWorkers));
  proxy.Stall(true);
  const uint64_t before = proxy.connections();
  // Far more than it takes until all are silent.
  absl::SleepFor(5 * options_.timeouts.silence);
  // The end of a capture ends its probe.
  for (size_t i = 0; i < kWorkers; ++i) {
    workers[i]->Cancel();
    EXPECT_EQ(logs[i]->AwaitEnded().error_code(), grpc::StatusCode::CANCELLED);
  }
  // The proxy takes the connections that were made meanwhile, and then those of another capture.
  proxy.Stall(false);
  Record(proxy.address(), absl::Hours(1));
  ASSERT_TRUE(log_->AwaitStarted());
  EXPECT_LE(proxy.connections(), before + kWorkers / 2);
  EXPECT_TRUE(await_connections(proxy.connections() + 1));
  worker_->Cancel();
  log_->AwaitEnded();
}

// The network drops everything, in both directions, and nobody says so.
TEST_F(NativeSlowLinkTest, ADeadLinkIsNoticed) {
  options_.timeouts.probe = absl::Milliseconds(500);
  absl::Notification dead;
  FakeNativeWorker::Script script;
  script.capture = [this, &dead](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendItems(items_, 0, raw_);
    dead.WaitForNotification();
    capture->Hang();
    return grpc::Status::OK;
  };
  script.fetch = [this](FakeFetch* fetch, int) {
    v1::FetchRequest request;
    EXPECT_TRUE(fetch->Read(&request));
    fetch->SendItems(items_, request.resume().next_item() - 1);
    return End(fetch);
  };
  FakeNativeWorker fake(script);
  TcpProxy proxy(fake.address());
  Record(proxy.address(), absl::Seconds(60));
  proxy.Stall(true);
  dead.Notify();
  const absl::Time begin = absl::Now();
  ASSERT_TRUE(log_->AwaitNote("and no answer on a second connection"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  proxy.Stall(false);
  ExpectWholeTrace();
}

// While the client itself does not keep up, what seems silence may be a message that it has not
// read.
TEST_F(NativeSlowLinkTest, SilenceCountsFromWhenTheClientWasLastLate) {
  options_.timeouts.probe = absl::Seconds(2);
  FakeNativeWorker::Script script;
  script.capture = [](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendStarted();
    capture->Hang();
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  TcpProxy proxy(fake.address());
  Record(proxy.address(), absl::Seconds(60));
  ASSERT_TRUE(log_->AwaitStarted());
  proxy.Stall(true);
  // The first probe is on its way by then; on a busy machine it may not be, which is as well.
  absl::SleepFor(absl::Seconds(1));
  // Late for three seconds more: neither that probe's end nor a silence before then decides.
  const uint64_t late_until_ns = MonotonicNow() + 3'000'000'000;
  threads_.timers()->NoteLateness(0, late_until_ns);
  ASSERT_TRUE(log_->AwaitNote("and no answer on a second connection"));
  EXPECT_GE(MonotonicNow(), late_until_ns + DurationNs(options_.timeouts.silence));
  worker_->Cancel();
  log_->AwaitEnded();
}

// Workers drop a capture whose client says nothing: one that waits for its disk says that it is
// there.
TEST_F(NativeSlowLinkTest, AClientThatWaitsForItsDiskSaysSo) {
  options_.timeouts.repeat_ack = absl::Milliseconds(50);
  absl::Notification spooled;
  absl::Notification blocked;
  const auto repeated = std::make_shared<absl::Notification>();  // the pool may see it last
  FakeNativeWorker::Script script;
  script.capture = [&](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendItems(items_, 0, raw_);
    EXPECT_TRUE(capture->AwaitAck(raw_));
    spooled.Notify();
    blocked.WaitForNotification();
    capture->SendItems(items_, raw_, raw_ + 1);
    v1::CaptureRequest request;
    for (int acks = 0; acks < 3 && capture->Read(&request); ++acks) {
      EXPECT_EQ(request.ack().through(), raw_);
    }
    repeated->Notify();
    return End(capture);
  };
  FakeNativeWorker fake(script);
  Record(fake.address(), absl::Seconds(60));
  spooled.WaitForNotification();
  // Both of its threads.
  for (int i = 0; i < 2; ++i) disk_.Run([repeated] { repeated->WaitForNotification(); });
  blocked.Notify();
  EXPECT_TRUE(repeated->WaitForNotificationWithTimeout(NativeLog::kTimeout));
  if (!repeated->HasBeenNotified()) repeated->Notify();
  ExpectWholeTrace();
}

TEST_F(NativeSlowLinkTest, TheTimeOfTheClientsDiskIsNotTheWorkers) {
  EXPECT_TRUE(EndAfterDiskStall([this](FakeCapture* capture) { return End(capture); }).ok());
  ExpectWholeTrace();
}

TEST_F(NativeSlowLinkTest, AfterTheDiskTheWorkerHasItsTimeLimit) {
  const grpc::Status ended = EndAfterDiskStall([](FakeCapture* capture) {
    capture->Hang();
    return grpc::Status::OK;
  });
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << ended.error_message();
}

}  // namespace
}  // namespace jobscope
