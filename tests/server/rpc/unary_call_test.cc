// SPDX-License-Identifier: Apache-2.0
//
// Unary calls for whose answers memory runs out: each is answered, and none stays open.
#include "server/rpc/unary_call.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "tests/failing_memory.h"

namespace jobscope {
namespace {

using Body =
    std::function<void(const std::shared_ptr<UnaryCall>& call, grpc::ByteBuffer* response)>;

// Passes each Stop to a function.
class ScriptedService final
    : public v1::Profiler::WithRawCallbackMethod_Stop<v1::Profiler::Service> {
 public:
  ScriptedService(CallRegistry* registry, Body body)
      : registry_(registry), body_(std::move(body)) {}

  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* /*request*/,
                                 grpc::ByteBuffer* response) override {
    return UnaryCall::Serve(registry_, "test", context,
                            [&](const std::shared_ptr<UnaryCall>& call) { body_(call, response); });
  }

 private:
  CallRegistry* const registry_;
  const Body body_;
};

thread_local bool t_lacks_memory = false;

// The next allocation of this thread fails.
void FailNextAllocation() {
  t_lacks_memory = true;
  FailAllocations(/*at=*/1, /*failures=*/1, [] { return t_lacks_memory; });
}

class UnaryCallTest : public ::testing::Test {
 protected:
  void Serve(Body body) {
    service_ = std::make_unique<ScriptedService>(&registry_, std::move(body));
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = v1::Profiler::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                      grpc::InsecureChannelCredentials()));
  }
  void TearDown() override {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    server_.reset();
  }
  grpc::Status CallStop() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    v1::StopResponse response;
    return stub_->Stop(&context, {}, &response);
  }

  std::atomic<bool> lacks_memory_{false};  // for the first allocation after the audit line
  CallRegistry registry_{8, 8, std::make_shared<AuditLog>([this](const std::string& /*line*/) {
                           if (lacks_memory_) FailNextAllocation();
                         })};
  std::unique_ptr<ScriptedService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Profiler::Stub> stub_;
};

TEST_F(UnaryCallTest, AMethodThatFindsNoMemoryEndsItsCallAndWhatRunsForIt) {
  std::atomic<int> cancelled{0};
  Serve([&](const std::shared_ptr<UnaryCall>& call, grpc::ByteBuffer* /*response*/) {
    call->OnCancel([&cancelled] { ++cancelled; });
    throw std::bad_alloc();
  });
  EXPECT_EQ(CallStop().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(cancelled, 1);
  EXPECT_TRUE(registry_.AwaitNone(absl::Minutes(1)));
}

TEST_F(UnaryCallTest, AnAnswerThatFindsNoMemoryIsAnError) {
  Serve([](const std::shared_ptr<UnaryCall>& call, grpc::ByteBuffer* /*response*/) {
    EXPECT_NO_THROW(call->Finish(absl::OkStatus(), [] { throw std::bad_alloc(); }));
  });
  EXPECT_EQ(CallStop().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(registry_.AwaitNone(absl::Minutes(1)));
}

TEST_F(UnaryCallTest, WithoutMemoryForItsTextAStatusIsSent) {
  lacks_memory_ = true;
  Serve([](const std::shared_ptr<UnaryCall>& call, grpc::ByteBuffer* /*response*/) {
    EXPECT_NO_THROW(
        call->Finish(absl::NotFoundError("a text for which a std::string needs an allocation")));
    EXPECT_EQ(StopFailing(), 0) << "no allocation failed";
  });
  EXPECT_EQ(CallStop().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(registry_.AwaitNone(absl::Minutes(1)));
}

TEST_F(UnaryCallTest, WithoutMemoryACallIsAbandonedAndWhatRunsForItIsEnded) {
  std::shared_ptr<UnaryCall> open;
  absl::Notification has_call;
  std::atomic<int> cancelled{0};
  Serve([&](const std::shared_ptr<UnaryCall>& call, grpc::ByteBuffer* /*response*/) {
    call->OnCancel([&cancelled] {
      ++cancelled;
      throw std::bad_alloc();
    });
    open = call;
    has_call.Notify();
  });
  std::future<grpc::Status> answer = std::async(std::launch::async, [this] { return CallStop(); });
  ASSERT_TRUE(has_call.WaitForNotificationWithTimeout(absl::Minutes(1)));
  FailNextAllocation();
  EXPECT_NO_THROW(open->Abandon());
  EXPECT_EQ(StopFailing(), 0) << "no allocation failed";
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(answer.get().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(registry_.AwaitNone(absl::Minutes(1)));
}

}  // namespace
}  // namespace jobscope
