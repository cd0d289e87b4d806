// SPDX-License-Identifier: Apache-2.0
//
// Streams whose handlers, or whose wake-ups, run out of memory.
#include "server/rpc/stream_call.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/sync_stream.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "server/rpc/raw_message.h"
#include "tests/failing_memory.h"

namespace jobscope {
namespace {

struct Script {
  std::string throws_in;          // the function that finds no memory
  std::atomic<bool> ends{false};  // at the next wake-up, with `status`
  absl::Status status;
  std::atomic<bool> lacks_memory{false};  // for the first allocation after the audit line
  absl::Notification done;
};

// Answers one message.
class ScriptedStream final : public StreamCall {
 public:
  ScriptedStream(CallRegistry* registry, grpc::CallbackServerContext* context, Script* script)
      : StreamCall(registry, "test", context), script_(*script) {}

  void OnMessage(const grpc::ByteBuffer& /*message*/, uint64_t /*received_ns*/) override {
    answered_ = false;
    has_message_ = true;
  }
  // With the client's answer no read is in progress, unless the stream waits for the client to end.
  bool WantsMessage() const override { return !has_message_ || script_.throws_in == "Outcome"; }
  bool NextMessage(grpc::ByteBuffer* message) override {
    if (std::exchange(answered_, true)) return false;
    v1::ClockPong pong;
    pong.set_number(1);
    WriteResponse(pong, message);
    return true;
  }
  void OnClientClosed() override { Finish(absl::OkStatus()); }
  void OnLost() override { Throw("OnLost"); }
  void OnWake() override {
    if (script_.ends) Finish(script_.status);
  }
  void OnServerEnds() override { Finish(absl::UnavailableError("the test has ended")); }
  void OnDone(bool /*lost*/) override {
    const bool throws = script_.throws_in == "OnDone";
    script_.done.Notify();  // the script may be gone
    if (throws) throw std::bad_alloc();
  }
  std::string Outcome() const override {
    Throw("Outcome");
    return {};
  }

 private:
  void Throw(const char* function) const {
    if (script_.throws_in == function) throw std::bad_alloc();
  }

  Script& script_;
  bool has_message_ = false;
  bool answered_ = true;
};

thread_local bool t_is_the_test = false;
thread_local bool t_sends_status = false;

class StreamCallTest : public ::testing::Test, private grpc::CallbackGenericService {
 protected:
  void SetUp() override {
    t_is_the_test = true;
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = v1::Profiler::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                      grpc::InsecureChannelCredentials()));
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    client_ = stub_->SyncClock(&context_);
    v1::ClockPong pong;
    ASSERT_TRUE(client_->Write({}) && client_->Read(&pong));
    ASSERT_NE(stream_, nullptr);
  }
  void TearDown() override {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    stream_.reset();
    server_.reset();
  }
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    stream_ = std::make_shared<ScriptedStream>(&registry_, context, &script_);
    return stream_->Begin();
  }
  void ExpectDone() {
    EXPECT_TRUE(script_.done.WaitForNotificationWithTimeout(absl::Minutes(1)));
    EXPECT_EQ(registry_.open(), 0U);
  }

  Script script_;
  CallRegistry registry_{8, 8, std::make_shared<AuditLog>([this](const std::string& /*line*/) {
                           if (!script_.lacks_memory) return;
                           t_sends_status = true;
                           FailAllocations(/*at=*/1, /*failures=*/1, [] { return t_sends_status; });
                         })};
  std::unique_ptr<v1::Profiler::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ClockPing, v1::ClockPong>> client_;
  std::shared_ptr<ScriptedStream> stream_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(StreamCallTest, AWakeUpForWhichMemoryRanOutHidesNoLaterOne) {
  // No allocation is met while the stream still handles its first events.
  do {
    FailAllocations(/*at=*/1, /*failures=*/1, [] { return t_is_the_test; });
    stream_->Wake();
  } while (StopFailing() != 0);
  script_.ends = true;
  stream_->Wake();
  const grpc::Status status = client_->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  ExpectDone();
}

TEST_F(StreamCallTest, WithoutMemoryForItsTextAStatusIsSent) {
  script_.status = absl::NotFoundError("a text for which a std::string needs an allocation");
  script_.lacks_memory = true;
  script_.ends = true;
  stream_->Wake();
  const grpc::Status status = client_->Finish();
  EXPECT_EQ(StopFailing(), 0) << "no allocation failed";
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND) << status.error_message();
  ExpectDone();
}

class ThrowingStreamTest : public StreamCallTest,
                           public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    script_.throws_in = GetParam();
    StreamCallTest::SetUp();
  }
};

// The end of the process's server waits for each stream.
TEST_P(ThrowingStreamTest, EndsAllTheSame) {
  if (script_.throws_in == "Outcome") {
    client_->WritesDone();
    const grpc::Status status = client_->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
  } else {
    context_.TryCancel();
    EXPECT_EQ(client_->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  ExpectDone();
}

INSTANTIATE_TEST_SUITE_P(Functions, ThrowingStreamTest,
                         ::testing::Values("OnLost", "Outcome", "OnDone"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace jobscope
