// SPDX-License-Identifier: Apache-2.0
//
// Starts of a worker's server, through the C ABI and its C++ form: options in code and in the
// environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "jobscope/jobscope_c.h"
#include "jobscope/profiler_server.h"
#include "tests/server/process/worker_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using WorkerStartTest = WorkerFixture;

TEST_F(WorkerStartTest, ASecondStartWithTheSameOptionsIsTheSameServer) {
  EXPECT_EQ(jobscope_server_running(), 0);
  {
    const ProfilerServer first = ProfilerServer::Start(Loopback());
    ASSERT_TRUE(first) << first.error();
    EXPECT_EQ(jobscope_server_running(), 1);
    {
      const ProfilerServer second = ProfilerServer::Start(Loopback());
      ASSERT_TRUE(second) << second.error();
      EXPECT_EQ(second.address(), first.address());
    }
    EXPECT_EQ(jobscope_server_running(), 1) << "the first handle has lost its server";

    ProfilerServerOptions others = Loopback();
    others.store_bytes = 32 << 20;
    const ProfilerServer third = ProfilerServer::Start(others);
    EXPECT_FALSE(third);
    EXPECT_EQ(third.code(), JOBSCOPE_E_BUSY);
    EXPECT_THAT(third.error(), AllOf(HasSubstr(first.address()), HasSubstr("other options")));
  }
  EXPECT_EQ(jobscope_server_running(), 0);
}

// `jobscope run` has started it: a program with a server of its own in the code goes on with that
// one.
TEST_F(WorkerStartTest, AServerOfTheEnvironmentIsGivenToEveryStart) {
  ASSERT_EQ(setenv("JOBSCOPE_LISTEN", "127.0.0.1:0", 1), 0);
  {
    ProfilerServerOptions as_attached;
    as_attached.address = "127.0.0.1:0";
    const ProfilerServer attached = ProfilerServer::Start(as_attached);
    ASSERT_TRUE(attached) << attached.error();
    ProfilerServerOptions in_code;
    in_code.address = "127.0.0.1:6009";
    in_code.store_bytes = 32 << 20;
    const ProfilerServer second = ProfilerServer::Start(in_code);
    EXPECT_TRUE(second) << second.error();
    EXPECT_EQ(second.address(), attached.address());
  }
  EXPECT_EQ(unsetenv("JOBSCOPE_LISTEN"), 0);
  EXPECT_EQ(jobscope_server_running(), 0);
}

TEST_F(WorkerStartTest, HandlesMove) {
  ProfilerServer server = ProfilerServer::Start(Loopback());
  ASSERT_TRUE(server) << server.error();
  ProfilerServer other = std::move(server);
  EXPECT_TRUE(other);
  EXPECT_FALSE(server);  // NOLINT(bugprone-use-after-move): this is what is tested
  other = ProfilerServer();
  EXPECT_EQ(jobscope_server_running(), 0);
}

TEST_F(WorkerStartTest, BadOptionsAreErrorsThatSayWhatToDo) {
  struct {
    std::function<void(ProfilerServerOptions*)> change;
    int code;
    const char* text;
  } const cases[] = {
      {[](ProfilerServerOptions* o) { o->address = ""; }, JOBSCOPE_E_INVALID, "JOBSCOPE_LISTEN"},
      {[](ProfilerServerOptions* o) { o->address = "127.0.0.1:70000"; }, JOBSCOPE_E_INVALID,
       "over 65535"},
      {[](ProfilerServerOptions* o) { o->address = std::string(2000, 'a'); }, JOBSCOPE_E_INVALID,
       "1,024"},
      {[](ProfilerServerOptions* o) { o->address = "no-such-host.invalid:1"; }, JOBSCOPE_E_ADDRESS,
       "not known"},
      {[](ProfilerServerOptions* o) { o->address = "0.0.0.0:0"; }, JOBSCOPE_E_REFUSED,
       "JOBSCOPE_INSECURE"},
      {[](ProfilerServerOptions* o) { o->store_bytes = 1; }, JOBSCOPE_E_INVALID, "1048576"},
      {[](ProfilerServerOptions* o) { o->store_bytes = UINT64_MAX; }, JOBSCOPE_E_INVALID,
       "store_bytes"},
      {[](ProfilerServerOptions* o) { o->ring_records = 1000; }, JOBSCOPE_E_INVALID,
       "power of two"},
      // Obeyed, it would leave every thread without a ring.
      {[](ProfilerServerOptions* o) { o->rings_cap_bytes = 32768 * 32; }, JOBSCOPE_E_INVALID,
       "must hold at least one ring"},
      {[](ProfilerServerOptions* o) { o->ring_records = 4194304; }, JOBSCOPE_E_INVALID,
       "rings_cap_bytes = 67108864"},
  };
  for (const auto& bad : cases) {
    ProfilerServerOptions options = Loopback();
    bad.change(&options);
    const ProfilerServer server = ProfilerServer::Start(options);
    EXPECT_FALSE(server) << bad.text;
    EXPECT_EQ(server.code(), bad.code) << server.error();
    EXPECT_THAT(server.error(), HasSubstr(bad.text));
    EXPECT_EQ(jobscope_server_running(), 0);
  }
}

TEST_F(WorkerStartTest, TheCAbiTakesOlderAndAbsentOptions) {
  setenv("JOBSCOPE_LISTEN", "127.0.0.1:0", 1);
  char address[64] = "x";
  char error[64] = "x";
  EXPECT_EQ(jobscope_server_start(nullptr, address, sizeof(address), error, sizeof(error)),
            JOBSCOPE_OK);
  EXPECT_THAT(std::string(address), StartsWith("127.0.0.1:"));
  EXPECT_STREQ(error, "");
  EXPECT_EQ(jobscope_server_stop(), JOBSCOPE_OK);
  // A caller that knows the address only.
  jobscope_server_options options;
  std::memset(&options, 0xff, sizeof(options));
  options.size = offsetof(jobscope_server_options, insecure);
  options.address = nullptr;
  EXPECT_EQ(jobscope_server_start(&options, nullptr, 0, nullptr, 0), JOBSCOPE_OK);
  EXPECT_EQ(jobscope_server_stop(), JOBSCOPE_OK);
  // Texts are cut at the buffer's size, and ended.
  options.size = 0;
  char tiny[8];
  EXPECT_EQ(jobscope_server_start(&options, nullptr, 0, tiny, sizeof(tiny)), JOBSCOPE_E_INVALID);
  EXPECT_EQ(std::strlen(tiny), sizeof(tiny) - 1);
  unsetenv("JOBSCOPE_LISTEN");
}

TEST_F(WorkerStartTest, TheKillSwitchWins) {
  setenv("JOBSCOPE_DISABLE", "1", 1);
  const ProfilerServer server = ProfilerServer::Start(Loopback());
  unsetenv("JOBSCOPE_DISABLE");
  EXPECT_FALSE(server);
  EXPECT_EQ(server.code(), JOBSCOPE_E_REFUSED);
  EXPECT_THAT(server.error(), HasSubstr("JOBSCOPE_DISABLE"));
}

TEST_F(WorkerStartTest, CredentialsFromTheEnvironmentAreNotIgnored) {
  setenv("JOBSCOPE_TLS_CERT", "cert.pem", 1);
  const ProfilerServer server = ProfilerServer::Start(Loopback());
  unsetenv("JOBSCOPE_TLS_CERT");
  EXPECT_EQ(server.code(), JOBSCOPE_E_INVALID);
  EXPECT_THAT(server.error(), HasSubstr("JOBSCOPE_TLS_CERT=/"));
  EXPECT_THAT(server.error(), HasSubstr("/cert.pem"));
  EXPECT_THAT(server.error(), HasSubstr("JOBSCOPE_TLS_KEY"));
}

TEST_F(WorkerStartTest, CredentialsInCodeWinOverTheEnvironment) {
  setenv("JOBSCOPE_TOKEN_FILE", "/absent/in_environment", 1);
  ProfilerServerOptions options = Loopback();
  options.token_file = "/absent/in_code";
  const ProfilerServer server = ProfilerServer::Start(options);
  unsetenv("JOBSCOPE_TOKEN_FILE");
  EXPECT_EQ(server.code(), JOBSCOPE_E_INVALID);
  EXPECT_THAT(server.error(), HasSubstr("options.token_file=/absent/in_code"));
}

TEST_F(WorkerStartTest, WritesItsAddressToThePortDirectory) {
  std::string directory = ::testing::TempDir() + "/addrXXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  setenv("JOBSCOPE_PORT_DIR", directory.c_str(), 1);
  setenv("RANK", "5", 1);
  {
    const ProfilerServer server = ProfilerServer::Start(Loopback());
    ASSERT_TRUE(server) << server.error();
    std::string line;
    std::ifstream file(directory + "/5.addr");
    std::getline(file, line);
    EXPECT_EQ(line, server.address());
  }
  EXPECT_EQ(rmdir(directory.c_str()), 0) << "the file was left behind";

  const ProfilerServer missing = ProfilerServer::Start(Loopback());
  EXPECT_EQ(missing.code(), JOBSCOPE_E_IO);
  EXPECT_THAT(missing.error(), HasSubstr("JOBSCOPE_PORT_DIR"));
  EXPECT_EQ(jobscope_server_running(), 0);
  unsetenv("JOBSCOPE_PORT_DIR");
  unsetenv("RANK");
}

}  // namespace
}  // namespace jobscope
