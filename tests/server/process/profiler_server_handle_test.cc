// SPDX-License-Identifier: Apache-2.0
//
// Tests handles in children that are forked while another thread is inside the C ABI. This
// program's own C ABI returns when the test requests it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "jobscope/jobscope_c.h"
#include "jobscope/profiler_server.h"

namespace {

constexpr unsigned kChildLimitS = 60;

const pid_t parent = getpid();
std::atomic<int> stops{0};

// Where the parent's calls wait.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool shut = false;
  int waiting = 0;

  void Pass() {
    std::unique_lock<std::mutex> lock(mutex);
    ++waiting;
    changed.notify_all();
    changed.wait(lock, [this] { return !shut; });
    --waiting;
  }
  void Shut() {
    const std::lock_guard<std::mutex> lock(mutex);
    shut = true;
  }
  void AwaitCall() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return waiting > 0; });
  }
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex);
    shut = false;
    changed.notify_all();
  }
};
Gate gate;

}  // namespace

extern "C" {

int jobscope_server_start(const jobscope_server_options* options, char*, size_t, char*, size_t) {
  if (getpid() == parent) {
    gate.Pass();
    return JOBSCOPE_OK;
  }
  // A child may have a server if its parent has none.
  return options->address[0] == '\0' ? JOBSCOPE_E_FORKED : JOBSCOPE_OK;
}

int jobscope_server_stop(void) {
  ++stops;
  if (getpid() == parent) gate.Pass();
  return JOBSCOPE_OK;
}

}  // extern "C"

namespace jobscope {
namespace {

// Returns what `body` returns in a forked child, or -1 if the child was killed.
int InChild(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(kChildLimitS);
    stops = 0;
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int StartRefused() { return ProfilerServer::Start().code(); }

// Starts a server and stops it. Returns how often the child has stopped one.
int StartAndStop() {
  ProfilerServerOptions options;
  options.address = "127.0.0.1:0";
  {
    const ProfilerServer first = ProfilerServer::Start(options);
    const ProfilerServer second = ProfilerServer::Start(options);
    if (!first || !second || stops != 0) return 100;
  }
  return stops;
}

TEST(ProfilerServerHandle, AChildForkedDuringAStartDoesNotHang) {
  gate.Shut();
  std::thread starter([] { EXPECT_TRUE(ProfilerServer::Start()); });
  gate.AwaitCall();
  EXPECT_EQ(InChild(StartRefused), JOBSCOPE_E_FORKED);
  EXPECT_EQ(InChild(StartAndStop), 1);
  gate.Open();
  starter.join();
}

TEST(ProfilerServerHandle, AChildForkedDuringAStopDoesNotHang) {
  std::optional<ProfilerServer> server = ProfilerServer::Start();
  gate.Shut();
  std::thread stopper([&] { server.reset(); });
  gate.AwaitCall();
  EXPECT_EQ(InChild(StartRefused), JOBSCOPE_E_FORKED);
  EXPECT_EQ(InChild(StartAndStop), 1);
  gate.Open();
  stopper.join();
}

TEST(ProfilerServerHandle, AnInheritedHandleDoesNothing) {
  std::optional<ProfilerServer> server = ProfilerServer::Start();
  gate.Shut();
  std::thread starter([] { EXPECT_TRUE(ProfilerServer::Start()); });
  gate.AwaitCall();
  EXPECT_EQ(InChild([&] {
              server.reset();
              return stops.load();
            }),
            0);
  // Nor does it count among the handles of a server that the child starts.
  EXPECT_EQ(InChild([&] {
              const int stopped = StartAndStop();
              server.reset();
              return stopped == 1 ? stops.load() : 100;
            }),
            1);
  gate.Open();
  starter.join();
  const int before = stops;
  server.reset();
  EXPECT_EQ(stops, before + 1);
}

}  // namespace
}  // namespace jobscope
