// SPDX-License-Identifier: Apache-2.0
//
// A job that closes its standard descriptors while the server runs: no connection takes their
// numbers, so that its output reaches no caller. In processes of their own.
#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/server/service_fixture.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

// Connects to "unix:PATH" or "127.0.0.1:PORT".
bool ConnectTo(const std::string& address, int fd) {
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, "unix:")) {
    sockaddr_un target = {};
    target.sun_family = AF_UNIX;
    path.copy(target.sun_path, sizeof(target.sun_path) - 1);
    return connect(fd, reinterpret_cast<sockaddr*>(&target), sizeof(target)) == 0;
  }
  sockaddr_in target = {};
  target.sin_family = AF_INET;
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  target.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
  return connect(fd, reinterpret_cast<sockaddr*>(&target), sizeof(target)) == 0;
}

bool IsSocket(int fd) {
  struct stat info = {};
  return fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode);
}

class ClosedStandardTest : public ServiceFixture {
 protected:
  ClosedStandardTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // Returns 0, or says what went wrong.
  int CaptureWithoutStandard(const std::string& address) {
    StartServer(Options(address));
    const bool is_unix = server_->address().front() == 'u';
    // The test's own are opened before, so that they have other numbers.
    const auto open_socket = [is_unix] {
      return socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    };
    const int silent = open_socket();
    const int caller = open_socket();
    const int messages = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    if (!ConnectTo(server_->address(), silent) || !ConnectTo(server_->address(), caller)) return 1;
    fcntl(caller, F_SETFL, O_NONBLOCK);
    tensorflow_ = tensorflow::ProfilerService::NewStub(
        grpc::CreateInsecureChannelFromFd("the caller", caller));
    int failures = 0;
    // The second capture follows an audit line of the first one.
    for (const char* session : {"first", "second"}) {
      const grpc::Status status = Profile(Request(1, session)).status;
      if (status.ok()) continue;
      dprintf(messages, "%s capture: %s\n", session, status.error_message().c_str());
      ++failures;
    }
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
      if (!IsSocket(fd)) continue;
      dprintf(messages, "%d is a connection\n", fd);
      ++failures;
    }
    return failures;
  }
};

TEST_F(ClosedStandardTest, NoConnectionOverTcpTakesTheirNumbers) {
  EXPECT_EXIT(_exit(CaptureWithoutStandard("127.0.0.1:0")), ::testing::ExitedWithCode(0), "");
}

TEST_F(ClosedStandardTest, NoConnectionOverAUnixSocketTakesTheirNumbers) {
  const TemporaryDirectory directory;
  EXPECT_EXIT(_exit(CaptureWithoutStandard("unix:" + directory.path() + "/s")),
              ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace jobscope
