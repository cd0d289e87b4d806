// SPDX-License-Identifier: Apache-2.0
#include "common/process/headroom.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "common/process/cgroup_limits.h"

namespace jobscope {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(FreeDescriptors, CountsTheNumbersBelowTheLimit) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit limit = {256, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const size_t free = FreeDescriptors(1'000);
  EXPECT_LE(free, 253u);
  EXPECT_EQ(FreeDescriptors(10), 10u);
  std::vector<int> taken;
  for (int fd = 0; (fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0;) taken.push_back(fd);
  EXPECT_EQ(taken.size(), free);
  EXPECT_EQ(FreeDescriptors(10), 0u);
  for (size_t i = 0; i < 7; ++i) {
    close(taken.back());
    taken.pop_back();
  }
  EXPECT_EQ(FreeDescriptors(10), 7u);
  for (const int fd : taken) close(fd);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(FreeMemory, EndsAtTheLimitOnAddressSpace) {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlim_t used = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  const rlimit limit = {used + 100 * kMiB, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  const MemoryHeadroom much = FreeMemory(4'096 * kMiB);
  const MemoryHeadroom little = FreeMemory(16 * kMiB);
  const bool can = CanMap(16 * kMiB);
  const bool cannot = CanMap(128 * kMiB);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_LE(much.bytes, 100 * kMiB);
  EXPECT_GE(much.bytes, 60 * kMiB);
  EXPECT_NE(much.limit.find("ulimit -v"), std::string::npos) << much.limit;
  EXPECT_EQ(little.bytes, 16 * kMiB);
  EXPECT_EQ(little.limit, "");
  EXPECT_TRUE(can);
  EXPECT_FALSE(cannot);
}

long PeakKib() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// A real-time program locks all its memory; the kernel fills what it maps then.
TEST(CanMap, TakesNoMemoryIfTheProgramLocksIts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const long before = PeakKib();
        if (mlockall(MCL_FUTURE) != 0) _exit(2);  // RLIMIT_MEMLOCK
        const bool can = CanMap(256 * kMiB);
        _exit(can && PeakKib() < before + 64 * 1024 ? 0 : 1);
      },
      [](int status) { return WIFEXITED(status) && WEXITSTATUS(status) != 1; }, "");
}

class CgroupTest : public ::testing::Test {
 protected:
  CgroupTest() {
    std::string name = ::testing::TempDir() + "cgroup_XXXXXX";
    root_ = mkdtemp(name.data());
  }
  ~CgroupTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  uint64_t Left() const { return CgroupMemoryLeft(root_ + "/membership", root_ + "/mount"); }
  std::optional<uint64_t> ThreadsLeft() const {
    return CgroupThreadsLeft(root_ + "/membership", root_ + "/mount");
  }

  std::string root_;
};

// Returns the flags of the descriptor, other than `ours`, by which this process has a file open.
int FlagsOfOther(const std::string& path, int ours) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    std::error_code closed;
    if (fd != ours && std::filesystem::read_symlink(entry, closed) == path) {
      return fcntl(fd, F_GETFD);
    }
  }
  return -1;
}

// Another thread may execute a program at any time.
TEST_F(CgroupTest, NoProgramInheritsTheFile) {
  const std::string fifo = root_ + "/membership";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::thread reader([this] { EXPECT_EQ(Left(), UINT64_MAX); });
  const int writer = open(fifo.c_str(), O_WRONLY | O_CLOEXEC);  // waits for the reader
  int flags = -1;
  while ((flags = FlagsOfOther(fifo, writer)) < 0) std::this_thread::yield();
  EXPECT_EQ(flags, FD_CLOEXEC);
  close(writer);
  reader.join();
}

TEST_F(CgroupTest, TheTightestGroupOfVersion2Counts) {
  Write("/membership", "0::/job/worker\n");
  Write("/mount/job/worker/memory.max", "max\n");
  Write("/mount/job/worker/memory.current", "1048576\n");
  EXPECT_EQ(Left(), UINT64_MAX);
  Write("/mount/job/memory.max", "104857600\n");
  Write("/mount/job/memory.current", "62914560\n");
  EXPECT_EQ(Left(), 40 * kMiB);
  // Page cache is given back before anybody is killed.
  Write("/mount/job/memory.stat", "anon 1\ninactive_file 10485760\nactive_file 5242880\n");
  EXPECT_EQ(Left(), 55 * kMiB);
  Write("/mount/job/worker/memory.max", "2097152\n");
  EXPECT_EQ(Left(), 1 * kMiB);
  Write("/mount/job/worker/memory.current", "4194304\n");
  EXPECT_EQ(Left(), 0u);
}

TEST_F(CgroupTest, Version1HasItsOwnFiles) {
  Write("/membership", "5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n");
  Write("/mount/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/mount/memory/job/memory.usage_in_bytes", "1048576\n");
  EXPECT_EQ(Left(), UINT64_MAX);
  Write("/mount/memory/job/memory.limit_in_bytes", "10485760\n");
  Write("/mount/memory/job/memory.stat",
        "inactive_file 5\nactive_file 7\ntotal_inactive_file 262144\n"
        "total_active_file 262144\n");
  EXPECT_EQ(Left(), 9 * kMiB + kMiB / 2);
}

TEST_F(CgroupTest, AContainerSeesItsGroupAtTheMount) {
  Write("/membership", "4:memory:/docker/0123/job\n");
  Write("/mount/memory/memory.limit_in_bytes", "10485760\n");
  Write("/mount/memory/memory.usage_in_bytes", "1048576\n");
  EXPECT_EQ(Left(), 9 * kMiB);
}

TEST_F(CgroupTest, WithoutGroupsThereIsNoLimit) {
  EXPECT_EQ(Left(), UINT64_MAX);
  Write("/membership", "nonsense\n4:memory\n::\n");
  EXPECT_EQ(Left(), UINT64_MAX);
}

TEST_F(CgroupTest, TheTightestGroupOfThreadsCounts) {
  EXPECT_EQ(ThreadsLeft(), std::nullopt);
  Write("/membership", "5:pids:/job\n0::/job/worker\n");
  EXPECT_EQ(ThreadsLeft(), std::nullopt);
  Write("/mount/cgroup.procs", "");
  EXPECT_EQ(ThreadsLeft(), UINT64_MAX);
  Write("/mount/job/cgroup.procs", "");
  Write("/mount/job/pids.max", "100\n");
  Write("/mount/job/pids.current", "60\n");
  EXPECT_EQ(ThreadsLeft(), 40u);
  Write("/mount/pids/job/cgroup.procs", "");
  Write("/mount/pids/job/pids.max", "7\n");
  Write("/mount/pids/job/pids.current", "9\n");
  EXPECT_EQ(ThreadsLeft(), 0u);
}

}  // namespace
}  // namespace jobscope
