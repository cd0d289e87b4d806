// SPDX-License-Identifier: Apache-2.0
//
// Tests two listeners that open the same Unix socket at once. This program's own listen() and
// flock() show the test how far each of them is.
#include "server/listen/listen_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/temporary_directory.h"

namespace {

std::function<void()> before_listen;  // called once
std::atomic<bool> lock_refused{false};

}  // namespace

extern "C" {

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's are reserved
int listen(int fd, int backlog) noexcept {
  if (const auto hook = std::exchange(before_listen, nullptr)) hook();
  return static_cast<int>(syscall(SYS_listen, fd, backlog));
}

int flock(int fd, int operation) noexcept {
  const int result = static_cast<int>(syscall(SYS_flock, fd, operation));
  if (result != 0) lock_refused = true;
  return result;
}

}  // extern "C"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

class UnixListenSocket : public ::testing::Test {
 protected:
  absl::StatusOr<ListenSocket> Open() const {
    return ListenSocket::Open({"unix:" + path_, /*loopback=*/true}, {});
  }
  sockaddr_un Address() const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    return address;
  }
  // As a killed process leaves it.
  void LeaveStaleFile() const {
    const sockaddr_un address = Address();
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    close(fd);
  }
  // Returns whether a connection to the path arrives at this listener.
  bool Reaches(const ListenSocket& listener) const {
    const sockaddr_un address = Address();
    const int caller = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)connect(caller, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    const int accepted = accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC);
    close(caller);
    if (accepted >= 0) close(accepted);
    return accepted >= 0;
  }
  // The second begins when the first has bound its socket and does not listen yet.
  void ExpectThatTheFirstOfTwoListens() const {
    lock_refused = false;
    std::atomic<bool> refused{false};
    std::thread second;
    before_listen = [&] {
      second = std::thread([&] {
        EXPECT_FALSE(Open().ok());
        refused = true;
      });
      while (!refused && !lock_refused) std::this_thread::yield();
    };
    const absl::StatusOr<ListenSocket> first = Open();
    second.join();
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE(Reaches(*first));
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/socket";
};

TEST_F(UnixListenSocket, TheFirstOfTwoListens) { ExpectThatTheFirstOfTwoListens(); }

TEST_F(UnixListenSocket, TheFirstOfTwoListensInPlaceOfAStaleFile) {
  LeaveStaleFile();
  ExpectThatTheFirstOfTwoListens();
}

// Not ALREADY_EXISTS, which is the error of an address that another process uses.
TEST_F(UnixListenSocket, AFileThatIsNoSocketIsNamedAndKept) {
  directory_.Write("socket", "data");
  const absl::Status refused = Open().status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("exists and is not a socket"));
  EXPECT_EQ(ReadAll(path_), "data");
}

// Others lock directories too, for other reasons, and for long.
TEST_F(UnixListenSocket, ALockThatAnotherProcessKeepsMattersOnlyForAStaleFile) {
  const int directory = open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(directory, LOCK_EX), 0);
  {
    const absl::StatusOr<ListenSocket> listener = Open();
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_TRUE(Reaches(*listener));
    EXPECT_TRUE(absl::IsAlreadyExists(Open().status()));
  }
  LeaveStaleFile();
  const absl::Status refused = Open().status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("remove the file"));
  close(directory);
  EXPECT_TRUE(Open().ok());
}

TEST_F(UnixListenSocket, LeavesTheDirectoryUnlocked) {
  const absl::StatusOr<ListenSocket> listener = Open();
  ASSERT_TRUE(listener.ok()) << listener.status();
  const int directory = open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  EXPECT_EQ(flock(directory, LOCK_EX | LOCK_NB), 0);
  close(directory);
}

}  // namespace
}  // namespace jobscope
