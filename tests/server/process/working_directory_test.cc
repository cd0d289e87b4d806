// SPDX-License-Identifier: Apache-2.0
//
// A program that changes its working directory after it has started a server with relative paths.
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "jobscope/profiler_server.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

constexpr char kToken[] = "0123456789abcdef-own";
constexpr char kForeignToken[] = "0123456789abcdef-foreign";

class WorkingDirectory : public ::testing::Test {
 protected:
  WorkingDirectory() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(start_.path());
  }
  ~WorkingDirectory() override { std::filesystem::current_path(before_); }

  static ProfilerServer Serve(const std::string& token_file) {
    ProfilerServerOptions options;
    options.address = "127.0.0.1:0";
    options.token_file = token_file;
    return ProfilerServer::Start(options);
  }
  static void WriteToken(const TemporaryDirectory& directory, const std::string& token) {
    ASSERT_EQ(chmod(directory.Write("token", token).c_str(), 0600), 0);
  }
  static grpc::StatusCode Describe(const ProfilerServer& server, const std::string& token) {
    const auto stub = v1::Profiler::NewStub(
        grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + token);
    v1::DescribeResponse description;
    return stub->Describe(&context, {}, &description).error_code();
  }

  const std::filesystem::path before_;
  const TemporaryDirectory start_;
  const TemporaryDirectory other_;  // the program goes there
};

TEST_F(WorkingDirectory, TheTokenIsThatOfTheStart) {
  WriteToken(start_, kToken);
  WriteToken(other_, kForeignToken);
  const ProfilerServer server = Serve("token");
  ASSERT_TRUE(server) << server.error();
  std::filesystem::current_path(other_.path());
  // Whichever call comes first makes the server check the file.
  EXPECT_EQ(Describe(server, kForeignToken), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Describe(server, kToken), grpc::StatusCode::OK);
  // The settings have not changed.
  const ProfilerServer again = Serve("token");
  EXPECT_TRUE(again) << again.error();
  EXPECT_EQ(again.address(), server.address());
}

TEST_F(WorkingDirectory, TheAddressIsRemovedFromThePortDirectory) {
  ASSERT_EQ(mkdir((start_.path() + "/ports").c_str(), 0700), 0);
  setenv("JOBSCOPE_PORT_DIR", "ports", 1);
  {
    const ProfilerServer server = Serve("");
    EXPECT_TRUE(server) << server.error();
    EXPECT_EQ(List(start_.path() + "/ports").size(), 1u);
    std::filesystem::current_path(other_.path());
  }
  unsetenv("JOBSCOPE_PORT_DIR");
  EXPECT_TRUE(List(start_.path() + "/ports").empty());
}

}  // namespace
}  // namespace jobscope
