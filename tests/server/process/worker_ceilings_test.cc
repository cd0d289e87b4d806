// SPDX-License-Identifier: Apache-2.0
//
// Ceilings on captures, in code and in the environment.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <thread>

#include "jobscope/profiler_server.h"
#include "jobscope/trace.h"
#include "tensorflow/profiler_service.grpc.pb.h"
#include "tests/server/process/worker_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using WorkerCeilingsTest = WorkerFixture;

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

TEST_F(WorkerCeilingsTest, TheEnvironmentsCeilingsHold) {
  const Variable duration("JOBSCOPE_MAX_DURATION_MS", "500000");
  const Variable bytes("JOBSCOPE_MAX_TRACE_MB", "1");
  const Variable rate("JOBSCOPE_MAX_CAPTURES_PER_MINUTE", "1");
  const ProfilerServer server = ProfilerServer::Start(Loopback());
  ASSERT_TRUE(server) << server.error();
  auto stub = Tensorflow(server);
  const auto profile = [&stub](uint64_t duration_ms, tensorflow::ProfileResponse* response) {
    grpc::ClientContext context;
    tensorflow::ProfileRequest request;
    request.set_duration_ms(duration_ms);
    request.set_emit_xspace(true);
    return stub->Profile(&context, request, response);
  };
  tensorflow::ProfileResponse response;
  EXPECT_EQ(profile(500'001, &response).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  std::thread recorder([this] {
    while (looping_) {
      JOBSCOPE_SCOPE("flood");
    }
  });
  const grpc::Status first = profile(500'000, &response);
  looping_ = false;
  recorder.join();
  EXPECT_TRUE(first.ok()) << first.error_message();
  EXPECT_THAT(response.SerializeAsString(),
              AllOf(HasSubstr("max_trace_bytes"), Not(HasSubstr("JOBSCOPE_STORE_MB"))));
  EXPECT_EQ(profile(1, &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

// Ceilings in code win.
TEST_F(WorkerCeilingsTest, TheCeilingsInCodeHold) {
  const Variable duration("JOBSCOPE_MAX_DURATION_MS", "500000");
  ProfilerServerOptions options = Loopback();
  options.max_duration_ms = 50;
  options.max_captures_per_minute = 1;
  const ProfilerServer server = ProfilerServer::Start(options);
  ASSERT_TRUE(server) << server.error();
  auto stub = Tensorflow(server);
  const auto code_of = [&stub](uint64_t duration_ms) {
    grpc::ClientContext context;
    tensorflow::ProfileRequest request;
    request.set_duration_ms(duration_ms);
    tensorflow::ProfileResponse response;
    return stub->Profile(&context, request, &response).error_code();
  };
  EXPECT_EQ(code_of(60), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(code_of(50), grpc::StatusCode::OK);
  EXPECT_EQ(code_of(50), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

}  // namespace
}  // namespace jobscope
