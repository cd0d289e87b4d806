// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/worker_owner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace jobscope {
namespace {

constexpr uid_t kOtherOwner = 65533;  // not 65534, which stands for users without a number

class OwnedSocket {
 public:
  OwnedSocket() : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  OwnedSocket(const OwnedSocket&) = delete;
  OwnedSocket& operator=(const OwnedSocket&) = delete;
  ~OwnedSocket() { close(fd_); }

  // Names that begin with '\0' are abstract.
  bool Listen(const std::string& name) const {
    const sockaddr_un address = AddressOf(name);
    return bind(fd_, reinterpret_cast<const sockaddr*>(&address), SizeOf(name)) == 0 &&
           listen(fd_, 8) == 0;
  }
  bool Connect(const std::string& name) const {
    const sockaddr_un address = AddressOf(name);
    return connect(fd_, reinterpret_cast<const sockaddr*>(&address), SizeOf(name)) == 0;
  }

 private:
  static sockaddr_un AddressOf(const std::string& name) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::copy_n(name.begin(), std::min(name.size(), sizeof(address.sun_path) - 1),
                address.sun_path);
    return address;
  }
  static socklen_t SizeOf(const std::string& name) {
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  }

  const int fd_;
};

// A directory in which every user may create and rename files, and the endpoint of a socket in it.
class WorkerOwnerPathTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string made = "/tmp/worker_owner_XXXXXX";
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    folder_ = made;
    ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
    const auto endpoint = ParseEndpoint("unix:" + path());
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    endpoint_ = *endpoint;
  }
  void TearDown() override {
    unlink(path().c_str());
    unlink(other_path().c_str());
    rmdir(folder_.c_str());
  }
  std::string path() const { return folder_ + "/worker.sock"; }
  std::string other_path() const { return folder_ + "/other.sock"; }

  std::string folder_;
  Endpoint endpoint_;
};

TEST(WorkerOwnerTest, WithoutADescriptorSaysWhatItCannotRead) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = CheckWorkerOwner(Endpoint());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              ::testing::StartsWith("cannot read /proc/self/fd, which is needed to find the "
                                    "process that listens there"));
}

// The kernel reports the path that the listener was bound to, also where that is not the path that
// leads to it now: behind a rename, a symbolic link, or a mount into a container.
TEST_F(WorkerOwnerPathTest, FindsAListenerThatWasBoundToAnotherPath) {
  const OwnedSocket listener;
  ASSERT_TRUE(listener.Listen(other_path()));
  ASSERT_EQ(rename(other_path().c_str(), path().c_str()), 0);
  const OwnedSocket caller;
  ASSERT_TRUE(caller.Connect(path()));
  const absl::Status status = CheckWorkerOwner(endpoint_);
  EXPECT_TRUE(status.ok()) << status;
}

// Nobody reaches an abstract name by a path.
TEST_F(WorkerOwnerPathTest, AConnectionToAnAbstractNameIsNotTheWorkers) {
  const std::string name = std::string(1, '\0') + path();
  const OwnedSocket listener;
  ASSERT_TRUE(listener.Listen(name));
  const OwnedSocket caller;
  ASSERT_TRUE(caller.Connect(name));
  EXPECT_EQ(CheckWorkerOwner(endpoint_).code(), absl::StatusCode::kUnavailable);
}

// Another user replaces the socket of a running worker: the connection to the worker remains, and
// must not vouch for the next one.
TEST_F(WorkerOwnerPathTest, AnotherUsersListenerThatWasBoundElsewhereIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const OwnedSocket worker;
  ASSERT_TRUE(worker.Listen(path()));
  const OwnedSocket first;
  ASSERT_TRUE(first.Connect(path()));
  ASSERT_TRUE(CheckWorkerOwner(endpoint_).ok());

  int ready[2];
  int finish[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(finish), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(finish[1]);
    char byte = 0;
    const OwnedSocket impostor;
    if (setresuid(kOtherOwner, kOtherOwner, kOtherOwner) != 0) _exit(1);
    if (!impostor.Listen(other_path())) _exit(2);
    if (rename(other_path().c_str(), path().c_str()) != 0) _exit(3);
    if (write(ready[1], "x", 1) != 1) _exit(4);
    (void)!read(finish[0], &byte, 1);  // until the test has looked
    _exit(0);
  }
  close(ready[1]);
  char byte = 0;
  const bool replaced = read(ready[0], &byte, 1) == 1;
  const OwnedSocket second;
  const bool connected = replaced && second.Connect(path());
  const absl::Status status = CheckWorkerOwner(endpoint_);
  for (const int fd : {ready[0], finish[0], finish[1]}) close(fd);
  int ended = 0;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  ASSERT_EQ(ended, 0);
  ASSERT_TRUE(connected);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()),
              ::testing::AllOf(::testing::HasSubstr("unix:" + other_path()),
                               ::testing::HasSubstr("is of user 65533")));
}

}  // namespace
}  // namespace jobscope
