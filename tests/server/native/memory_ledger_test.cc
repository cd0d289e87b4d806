// SPDX-License-Identifier: Apache-2.0
//
// Tests a worker's memory under all kinds of callers: at most one store, and nothing afterwards.
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/process/process_usage.h"
#include "tests/end_to_end/tcp_proxy.h"
#include "tests/server/native/native_fixture.h"

namespace jobscope {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kStoreBytes = 64 * kMiB;
constexpr uint64_t kTraceBytes = 40 * kMiB;  // far more than sockets hold

uint64_t ResidentBytes() { return ProcessUsageReader().Read().rss_bytes.value_or(0); }

class MemoryLedgerTest : public NativeFixture {
 protected:
  // Asks, and never reads its answer: HTTP/2 lets the worker send 64 KiB of it.
  class Caller {
   public:
    Caller(const std::string& address, const tensorflow::ProfileRequest& request)
        : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())),
          call_(stub_.PrepareCall(&context_, "/tensorflow.ProfilerService/Profile", &queue_)) {
      call_->StartCall(this);
      Await();
      const grpc::Slice slice(request.SerializeAsString());
      call_->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), this);
      Await();
    }
    ~Caller() {
      context_.TryCancel();
      grpc::Status status;
      call_->Finish(&status, this);
      Await();
      queue_.Shutdown();
      void* tag = nullptr;
      bool ok = false;
      while (queue_.Next(&tag, &ok)) {
      }
    }

   private:
    void Await() {
      void* tag = nullptr;
      bool ok = false;
      EXPECT_TRUE(queue_.Next(&tag, &ok));
    }

    grpc::CompletionQueue queue_;
    grpc::ClientContext context_;
    grpc::GenericStub stub_;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  };

  void Serve(AnswerTimeouts timeouts) {
    GrpcServerOptions options = Options();
    options.store_bytes = kStoreBytes;
    options.answer_timeouts = timeouts;
    StartFlood(std::move(options));
    // What a first capture allocates once.
    flood_.Flood(10, 10, kFloodItemBytes);
    EXPECT_TRUE(Profile(Request(10)).status.ok());
    flood_.Flood(kTraceBytes / kFloodItemBytes, 100, kFloodItemBytes);
  }
  bool HasHad(uint64_t sessions) {
    peak_ = std::max(peak_, ResidentBytes());
    return flood_.sessions() >= sessions;
  }

  uint64_t peak_ = 0;
};

// Each of them asks, and takes nothing of its answer: the next one records when the last one was
// cut off, not on top of it.
TEST_F(MemoryLedgerTest, StalledUnaryCallersTakeOneStoreTogether) {
  Serve({absl::Seconds(1), uint64_t{1} << 40});
  const uint64_t before = ResidentBytes();
  const uint64_t sessions = flood_.sessions();
  std::vector<std::unique_ptr<Caller>> callers;
  for (uint64_t i = 1; i <= 4; ++i) {
    callers.push_back(std::make_unique<Caller>(server_->address(), Request(300)));
    ASSERT_TRUE(Eventually([&] { return HasHad(sessions + i); })) << i;
  }
  ASSERT_TRUE(Eventually([&] {
    peak_ = std::max(peak_, ResidentBytes());
    return !sessions_->busy().has_value();
  }));
  if (kRssIsOurs) {
    EXPECT_LT(peak_, before + kStoreBytes + 48 * kMiB);
    callers.clear();  // what they have received is memory of this process, too
    EXPECT_TRUE(Eventually([&] {
      malloc_trim(0);
      return ResidentBytes() < before + 16 * kMiB;
    })) << (ResidentBytes() - before) / kMiB
        << " MiB more than before";
  }
}

// What a hanging collector keeps of its session goes when it returns.
TEST_F(MemoryLedgerTest, CollectorsThatHangLeaveNothingBehind) {
  EXPECT_TRUE(sessions_->Shutdown(absl::Minutes(1)));
  SessionManager::Dependencies dependencies;
  dependencies.collectors = {&flood_, &collector_};
  dependencies.identity = [this] { return identity_; };
  sessions_ = std::make_shared<SessionManager>(std::move(dependencies));
  GrpcServerOptions options = Options();
  options.store_bytes = kStoreBytes;
  StartServer(std::move(options));
  flood_.Flood(10 * kMiB / kFloodItemBytes, 100, kFloodItemBytes);
  const auto capture = [this](int number) {
    const std::string id = absl::StrCat("hangs ", number);
    collector_.HangIn("stop");
    {
      auto stream = StartWholeFlood(id);
      // As if the process ended: the session then waits for 0.4 s only.
      EXPECT_EQ(sessions_->Stop(id, EndedBy::kShutdown), id);
      Drain(stream.get());
      EXPECT_EQ(SummaryOf(stream->items).collectors(1).state(), "wedged");
    }
    collector_.Release();
    EXPECT_TRUE(
        Eventually([this] { return sessions_->DescribeCollectors()[1].state() != "wedged"; }));
    EXPECT_TRUE(AwaitIdle());
  };
  for (int i = 0; i < 3; ++i) capture(i);
  malloc_trim(0);
  const uint64_t before = ResidentBytes();
  for (int i = 3; i < 33; ++i) capture(i);
  if (!kRssIsOurs) return;
  EXPECT_TRUE(Eventually([&] {
    malloc_trim(0);
    return ResidentBytes() <= before + 8 * kMiB;
  })) << (ResidentBytes() - before) / kMiB
      << " MiB more than before";
}

// Slow is not stalled.
TEST_F(MemoryLedgerTest, ASlowCallerGetsItsAnswer) {
  Serve({absl::Seconds(2), 2 * kMiB});
  TcpProxy proxy(server_->address());
  proxy.LimitRate(10 * kMiB);
  const auto stub = tensorflow::ProfilerService::NewStub([&] {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    return grpc::CreateCustomChannel(proxy.address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }());
  grpc::ClientContext context;
  tensorflow::ProfileResponse response;
  // Until all of the trace is there, however seldom a busy machine drains.
  std::thread stopper([&] {
    EXPECT_TRUE(Eventually([&] { return flood_.attempted() >= flood_.total(); }));
    EXPECT_TRUE(sessions_->Stop("slow"));
  });
  const grpc::Status status = stub->Profile(&context, Request(600'000, "slow"), &response);
  stopper.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_GT(response.ByteSizeLong(), kTraceBytes / 2);
}

}  // namespace
}  // namespace jobscope
