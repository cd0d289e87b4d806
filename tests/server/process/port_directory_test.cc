// SPDX-License-Identifier: Apache-2.0
//
// A worker whose port directory is on a file system that hangs.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "jobscope/jobscope_c.h"
#include "jobscope/profiler_server.h"
#include "jobscope/trace.h"
#include "jobscope/trace_c.h"
#include "tensorflow/profiler_service.grpc.pb.h"
#include "tests/hanging_files.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

class PortDirectory : public ::testing::Test {
 protected:
  PortDirectory() {
    setenv("JOBSCOPE_PORT_DIR", ports_.path().c_str(), 1);
    setenv("RANK", "5", 1);
  }
  ~PortDirectory() override {
    g_files.Hang({});
    EXPECT_EQ(jobscope_server_stop(), JOBSCOPE_OK);
    unsetenv("JOBSCOPE_PORT_DIR");
    unsetenv("RANK");
  }

  static ProfilerServer Start(const std::string& address = "127.0.0.1:0") {
    ProfilerServerOptions options;
    options.address = address;
    return ProfilerServer::Start(options);
  }
  // Polls, at most 60 s.
  static bool Becomes(const std::function<bool()>& condition) {
    for (int i = 0; i < 60'000 && !condition(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return condition();
  }
  // Runs `call` while names that end in ".addr" hang. If it hangs too, they no longer do.
  static void ExpectToReturn(const std::function<void()>& call) {
    g_files.Hang({".addr"});
    auto returned = std::async(std::launch::async, call);
    EXPECT_EQ(returned.wait_for(std::chrono::seconds(60)), std::future_status::ready);
    if (HasFailure()) g_files.Hang({});
  }

  const TemporaryDirectory ports_;
};

TEST_F(PortDirectory, AStopDeliversWhileItHangs) {
  const ProfilerServer server = Start();
  ASSERT_TRUE(server) << server.error();
  const auto stub = tensorflow::ProfilerService::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  tensorflow::ProfileResponse response;
  auto captured = std::async(std::launch::async, [&] {
    grpc::ClientContext context;
    tensorflow::ProfileRequest request;
    request.set_duration_ms(600'000);
    request.set_emit_xspace(true);
    return stub->Profile(&context, request, &response);
  });
  ASSERT_TRUE(Becomes([] { return jobscope_trace_enabled(JOBSCOPE_BIT_LEVEL1) != 0; }));
  { JOBSCOPE_SCOPE("work"); }
  ExpectToReturn([] { (void)jobscope_server_stop(); });
  const grpc::Status status = captured.get();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(response.SerializeAsString(), HasSubstr("work"));
  EXPECT_EQ(jobscope_server_running(), 0);
  EXPECT_TRUE(g_files.Await(1)) << "nothing was removed";
  g_files.Hang({});
  EXPECT_TRUE(Becomes([this] { return List(ports_.path()).empty(); }));
}

// Of the same address, so that the files of both are equal.
TEST_F(PortDirectory, ALateRemovalLeavesTheFileOfALaterStart) {
  std::string address;
  {
    ProfilerServer server = Start();
    ASSERT_TRUE(server) << server.error();
    address = server.address();
    ExpectToReturn([&server] { server = ProfilerServer(); });
  }
  EXPECT_TRUE(g_files.Await(1)) << "nothing was removed";
  auto started = std::async(std::launch::async, [&] { return Start(address); });
  // Whether it comes before or after the end of the hang.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  g_files.Hang({});
  const ProfilerServer server = started.get();
  ASSERT_TRUE(server) << server.error();
  EXPECT_EQ(ReadAll(ports_.path() + "/5.addr"), address + "\n");
}

TEST_F(PortDirectory, AStartThatCannotWriteFails) {
  ProfilerServer server;
  ExpectToReturn([&server] { server = Start(); });
  EXPECT_EQ(server.code(), JOBSCOPE_E_IO);
  EXPECT_THAT(server.error(), HasSubstr("JOBSCOPE_PORT_DIR"));
  EXPECT_EQ(jobscope_server_running(), 0);
  EXPECT_FALSE(List(ports_.path()).empty()) << "nothing was written";
  g_files.Hang({});
  // What is written late is removed: nobody serves there.
  EXPECT_TRUE(Becomes([this] { return List(ports_.path()).empty(); }));
}

}  // namespace
}  // namespace jobscope
