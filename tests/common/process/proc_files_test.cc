// SPDX-License-Identifier: Apache-2.0
#include "common/process/proc_files.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

TEST(ProcFiles, StateFollowsTheLastBracketOfTheName) {
  EXPECT_EQ(StateInStat("12 (train) R 1 2"), 'R');
  EXPECT_EQ(StateInStat("12 (a) S (b) Z 1"), 'Z');
  EXPECT_EQ(StateInStat("12 (x)"), std::nullopt);
  EXPECT_EQ(StateInStat("12 (x) "), std::nullopt);
  EXPECT_EQ(StateInStat(""), std::nullopt);
}

TEST(ProcFiles, TimesNeedBothNumbers) {
  const auto times = TimesInSchedstat("12 34 5\n");
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->cpu_ns, 12u);
  EXPECT_EQ(times->waited_ns, 34u);
  EXPECT_FALSE(TimesInSchedstat("12").has_value());
  EXPECT_FALSE(TimesInSchedstat("12 99999999999999999999").has_value());
  EXPECT_FALSE(TimesInSchedstat("-1 2").has_value());
}

TEST(ProcFiles, ResidentPagesAreTheSecondNumber) {
  EXPECT_EQ(ResidentPagesInStatm("700 44 3 1 0 9 0\n"), 44u);
  EXPECT_EQ(ResidentPagesInStatm("700"), std::nullopt);
  EXPECT_EQ(ResidentPagesInStatm("x 44"), std::nullopt);
}

TEST(ProcFiles, NumbersOfFiles) {
  const TemporaryDirectory directory;
  EXPECT_EQ(ReadProcNumber(directory.path() + "/none"), std::nullopt);
  EXPECT_EQ(ReadProcNumber(directory.Write("max", "max\n")), std::nullopt);
  EXPECT_EQ(ReadProcNumber(directory.Write("number", "42\n")), 42u);
  EXPECT_EQ(ReadProcNumber(directory.Write("last", "18446744073709551615")), UINT64_MAX);
  EXPECT_EQ(ReadProcNumber(directory.Write("beyond", "18446744073709551616\n")), std::nullopt);
  EXPECT_EQ(ReadProcNumber(directory.Write("empty", "")), std::nullopt);
  EXPECT_EQ(ReadProcNumber(directory.path()), std::nullopt);
  EXPECT_EQ(ReadThreadCount(directory.Write("load", "0.20 0.18 0.12 1/80 11206\n")), 80u);
  EXPECT_EQ(ReadThreadCount(directory.Write("load", "0.20 0.18\n")), std::nullopt);
  EXPECT_EQ(ReadThreadCount(directory.Write("load", "0.20 0.18 0.12 1/")), std::nullopt);
}

}  // namespace
}  // namespace jobscope
