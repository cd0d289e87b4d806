// SPDX-License-Identifier: Apache-2.0
#include "common/descriptors/standard_descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "common/process/process_usage.h"
#include "tests/closed_input.h"

namespace jobscope {
namespace {

TEST(AboveStandard, OnlyTheNumbersOfStandardDescriptorsAreLeft) {
  const int above = AboveStandard(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_GT(above, STDERR_FILENO);
  EXPECT_EQ(AboveStandard(above), above);
  close(above);
  const ClosedInput input;
  const int moved = AboveStandard(open("/dev/null", O_RDONLY));
  EXPECT_GT(moved, STDERR_FILENO);
  EXPECT_EQ(fcntl(moved, F_GETFD), FD_CLOEXEC);
  EXPECT_FALSE(input.taken());
  close(moved);
}

TEST(AboveStandard, AFailureKeepsItsReasonAndNoNumber) {
  errno = ENOENT;
  EXPECT_EQ(AboveStandard(-1), -1);
  EXPECT_EQ(errno, ENOENT);
  const ClosedInput input;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit one = {1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &one), 0);
  const int opened = open("/dev/null", O_RDONLY);
  const int moved = AboveStandard(opened);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(opened, STDIN_FILENO);
  EXPECT_EQ(moved, -1);
  EXPECT_FALSE(input.taken());
}

TEST(AboveStandard, AReaderThatStaysOpenLeavesThem) {
  const ClosedInput input;
  const ProcessUsageReader reader;
  EXPECT_FALSE(input.taken());
  EXPECT_GT(reader.Read().rss_bytes, 0u);
}

TEST(OpenClosedStandard, OnlyTheClosedOnesBecomeTheNullDevice) {
  for (const int flags : {0, O_CLOEXEC}) {
    const ClosedInput input;
    struct stat output_before = {};
    ASSERT_EQ(fstat(STDOUT_FILENO, &output_before), 0);
    OpenClosedStandard(flags);
    ASSERT_TRUE(input.taken());
    EXPECT_EQ(std::filesystem::read_symlink("/proc/self/fd/0"), "/dev/null");
    EXPECT_EQ(fcntl(STDIN_FILENO, F_GETFD), flags == 0 ? 0 : FD_CLOEXEC);
    struct stat output = {};
    ASSERT_EQ(fstat(STDOUT_FILENO, &output), 0);
    EXPECT_EQ(output.st_ino, output_before.st_ino);
  }
}

}  // namespace
}  // namespace jobscope
