// SPDX-License-Identifier: Apache-2.0
//
// A job that closes all descriptors but the standard ones while the server runs (closefrom), and
// opens its own under their numbers. In processes of their own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "server/listen/acceptor.h"
#include "tests/server/service_fixture.h"
#include "tests/server/sockets.h"

namespace jobscope {
namespace {

// All numbers of the server are below; the job's own pipes are above.
constexpr int kMaxDescriptors = 512;

bool Listens(int fd) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
}

bool IsEvent(int fd) {
  char target[64] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return readlink(link.c_str(), target, sizeof(target) - 1) > 0 &&
         absl::StrContains(target, "eventfd");
}

std::vector<int> Select(bool (*wanted)(int fd)) {
  std::vector<int> found;
  for (int fd = STDERR_FILENO + 1; fd < kMaxDescriptors; ++fd) {
    if (wanted(fd)) found.push_back(fd);
  }
  return found;
}

bool HasThread(const std::string& name) {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(thread.path() / "comm"), comm);
    if (comm == name) return true;
  }
  return false;
}

int64_t CpuMs() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000 + time.tv_nsec / 1'000'000;
}

int BytesIn(int fd) {
  int bytes = -1;
  return ioctl(fd, FIONREAD, &bytes) == 0 ? bytes : -1;
}

// A pipe of the job, which can be read under each of the numbers.
struct Pipe {
  explicit Pipe(const std::vector<int>& numbers) {
    int ends[2] = {-1, -1};
    if (pipe(ends) != 0) return;
    reader = fcntl(ends[0], F_DUPFD, kMaxDescriptors);
    writer = fcntl(ends[1], F_DUPFD, kMaxDescriptors);
    close(ends[0]);
    close(ends[1]);
    for (const int number : numbers) dup2(reader, number);
  }
  int reader = -1;
  int writer = -1;
};

class ClosedDescriptorsTest : public ServiceFixture {
 protected:
  ClosedDescriptorsTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // Returns how many things went wrong, and says which.
  int CloseAll() {
    StartServer();
    const std::string address = server_->address();
    const std::vector<int> listeners = Select(&Listens);
    const std::vector<int> events = Select(&IsEvent);
    close_range(STDERR_FILENO + 1, ~0U, 0);
    int failures = 0;
    const auto check = [&failures](bool condition, const char* what) {
      if (condition) return;
      dprintf(STDERR_FILENO, "%s\n", what);
      ++failures;
    };
    check(!listeners.empty() && !events.empty(), "the server's descriptors were not found");
    const Pipe pipe(events);
    check(write(pipe.writer, "12345678", 8) == 8, "no pipe");
    const int own = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    check(listen(own, 8) == 0, "no listener");  // binds to a free port
    for (const int number : listeners) dup2(own, number);
    sockaddr_in bound = {};
    socklen_t size = sizeof(bound);
    getsockname(own, reinterpret_cast<sockaddr*>(&bound), &size);
    // Wakes the acceptor if it waits for the old listener.
    const int old_caller = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in old = bound;
    old.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    old.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    (void)!connect(old_caller, reinterpret_cast<const sockaddr*>(&old), sizeof(old));
    check(Eventually([] { return !HasThread("jobscope-accept"); }), "the acceptor goes on");

    const RawConnection caller("127.0.0.1:" + std::to_string(ntohs(bound.sin_port)));
    const int64_t begin_ms = CpuMs();
    absl::SleepFor(absl::Seconds(1));
    check(CpuMs() - begin_ms < 500, "the process spins");
    check(BytesIn(pipe.reader) == 8, "the job's bytes are gone");
    check(accept(own, nullptr, nullptr) >= 0, "the job's caller is gone");
    return failures;
  }

  // The acceptor has noticed nothing when it is stopped.
  static int CloseAllAndStop() {
    auto listener = ListenSocket::Open({"127.0.0.1:0", true}, {});
    if (!listener.ok()) return 1;
    std::vector<ListenSocket> listeners;
    listeners.push_back(*std::move(listener));
    Acceptor acceptor(std::move(listeners));
    if (!acceptor.Start([](size_t, int, int, bool) {}).ok()) return 2;
    const std::vector<int> events = Select(&IsEvent);
    close_range(STDERR_FILENO + 1, ~0U, 0);
    const Pipe pipe({});
    for (const int number : events) dup2(pipe.writer, number);
    acceptor.Stop();
    return events.empty() ? 3 : BytesIn(pipe.reader);
  }
};

TEST_F(ClosedDescriptorsTest, TheJobsOwnAreNotUsed) {
  EXPECT_EXIT(_exit(CloseAll()), ::testing::ExitedWithCode(0), "has closed its descriptors");
}

TEST_F(ClosedDescriptorsTest, StopWritesToNone) {
  EXPECT_EXIT(_exit(CloseAllAndStop()), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace jobscope
