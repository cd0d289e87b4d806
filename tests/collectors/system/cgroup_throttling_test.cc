// SPDX-License-Identifier: Apache-2.0
//
// Throttling of made-up cgroups, and of a real one.
#include "collectors/system/cgroup_throttling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace jobscope {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CgroupThrottlingTest : public testing::Test {
 protected:
  CgroupThrottlingTest() {
    char name[] = "/tmp/jobscope-cgroup-XXXXXX";
    folder_ = mkdtemp(name);
    fs::create_directory(proc());
  }
  ~CgroupThrottlingTest() override { fs::remove_all(folder_); }

  std::string proc() const { return folder_ + "/proc"; }
  std::string mount() const { return folder_ + "/mount"; }

  void Write(const std::string& file, const std::string& text) const {
    fs::create_directories(fs::path(file).parent_path());
    std::ofstream(file) << text;
  }

 private:
  std::string folder_;
};

TEST_F(CgroupThrottlingTest, OfVersion2AddsUpTheCgroupsAround) {
  Write(proc() + "/mountinfo",
        absl::StrCat("23 1 0:21 / /proc rw - proc proc rw\n", "31 23 0:28 / ", mount(),
                     " rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"));
  Write(proc() + "/cgroup", "0::/pod/worker\n");
  // The root has no quota, and so no such lines.
  Write(mount() + "/cpu.stat", "usage_usec 9\n");
  Write(mount() + "/pod/cpu.stat",
        "usage_usec 9\nnr_periods 10\nnr_throttled 2\nthrottled_usec 3000\n");
  Write(mount() + "/pod/worker/cpu.stat", "nr_periods 5\nnr_throttled 1\nthrottled_usec 4000\n");
  const CgroupThrottling cgroups(proc());
  EXPECT_THAT(cgroups.files(),
              ElementsAre(mount() + "/pod/worker/cpu.stat", mount() + "/pod/cpu.stat"));
  const auto throttling = cgroups.Read();
  ASSERT_TRUE(throttling.has_value());
  EXPECT_EQ(throttling->periods, 15u);
  EXPECT_EQ(throttling->throttled_periods, 3u);
  EXPECT_EQ(throttling->throttled_ns, 7'000'000u);
}

TEST_F(CgroupThrottlingTest, OfVersion1InAContainer) {
  Write(proc() + "/mountinfo", absl::StrCat("31 23 0:28 /docker/0a1b ", mount(),
                                            " ro - cgroup cgroup rw,cpu,cpuacct\n"
                                            "41 31 0:38 / /nowhere rw - cgroup2 cgroup2 rw\n"));
  Write(proc() + "/cgroup", "4:cpu,cpuacct:/docker/0a1b\n0::/\n");
  Write(mount() + "/cpu.stat", "nr_periods 5\nnr_throttled 1\nthrottled_time 4000\n");
  const CgroupThrottling cgroups(proc());
  EXPECT_THAT(cgroups.files(), ElementsAre(mount() + "/cpu.stat"));
  EXPECT_EQ(cgroups.Read()->throttled_ns, 4000u);
}

// The kernel shows a cgroup by its whole name where another one is mounted whose name begins alike.
TEST_F(CgroupThrottlingTest, ACgroupWhoseNameBeginsAlikeLiesOutsideOfTheMount) {
  Write(proc() + "/mountinfo",
        absl::StrCat("31 23 0:28 /job ", mount(), " rw - cgroup2 cgroup2 rw\n"));
  Write(proc() + "/cgroup", "0::/jobs/1/worker\n");
  Write(mount() + "/cpu.stat", "nr_periods 5\n");
  EXPECT_THAT(CgroupThrottling(proc()).files(), ElementsAre(mount() + "/cpu.stat"));
}

// A capture reads the files ten times per second.
TEST_F(CgroupThrottlingTest, ACgroupThatNeverHadAQuotaIsNotReadAgain) {
  Write(proc() + "/mountinfo",
        absl::StrCat("31 23 0:28 / ", mount(), " rw - cgroup2 cgroup2 rw\n"));
  Write(proc() + "/cgroup", "0::/pod\n");
  Write(mount() + "/pod/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n");
  EXPECT_THAT(CgroupThrottling(proc()).files(), IsEmpty());
}

TEST_F(CgroupThrottlingTest, WhereNothingIsKnownNothingIsSaid) {
  EXPECT_THAT(CgroupThrottling(proc()).files(), IsEmpty());
  Write(proc() + "/mountinfo", "\n31 23\n31 23 0:28 / /x rw - cgroup2\n - - - - - - -\n");
  Write(proc() + "/cgroup", "0:\nx\n");
  const CgroupThrottling cgroups(proc());
  EXPECT_THAT(cgroups.files(), IsEmpty());
  EXPECT_EQ(cgroups.Read(), std::nullopt);
}

time_t NowS() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

// Burns its CPU time in a cgroup with a tenth of a processor until it is throttled.
int BurnIn(const std::string& cgroup) {
  std::ofstream(cgroup + "/cgroup.procs") << getpid() << std::flush;
  const time_t end = NowS() + 60;
  // The cgroup shows its quota once the first period has begun.
  std::optional<CgroupThrottling> cgroups;
  do {
    if (NowS() >= end) return 2;
    cgroups.emplace();
  } while (cgroups->files().empty() || cgroups->files().front() != cgroup + "/cpu.stat");
  const auto begin = cgroups->Read();
  if (!begin.has_value()) return 3;
  while (NowS() < end) {
    const auto throttling = cgroups->Read();
    if (throttling->throttled_periods > begin->throttled_periods &&
        throttling->throttled_ns > begin->throttled_ns) {
      return 0;
    }
  }
  return 1;
}

TEST(CgroupThrottlingRealTest, AProcessThatUsesUpItsQuotaIsThrottled) {
  const std::string cgroup = absl::StrCat("/sys/fs/cgroup/cpu/jobscope-test-", getpid());
  if (mkdir(cgroup.c_str(), 0755) != 0) GTEST_SKIP() << "no cgroup can be made here";
  std::ofstream(cgroup + "/cpu.cfs_period_us") << 10000 << std::flush;
  std::ofstream quota(cgroup + "/cpu.cfs_quota_us");
  quota << 1000 << std::flush;
  const bool has_quota = quota.good();
  const pid_t child = has_quota ? fork() : -1;
  if (child == 0) _exit(BurnIn(cgroup));
  int status = -1;
  if (child > 0) {
    EXPECT_EQ(waitpid(child, &status, 0), child);
  }
  rmdir(cgroup.c_str());
  if (!has_quota) GTEST_SKIP() << "no quota can be set here";
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace jobscope
