// SPDX-License-Identifier: Apache-2.0
#include "server/attach/environment.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>

#include "common/process/identity.h"

namespace jobscope::attach {
namespace {

std::map<std::string, std::string>& Variables() {
  static auto* const variables = new std::map<std::string, std::string>;
  return *variables;
}

char* Get(const char* name) {
  const auto found = Variables().find(name);
  return found == Variables().end() ? nullptr : found->second.data();
}

class EnvironmentTest : public ::testing::Test {
 protected:
  EnvironmentTest() { Variables().clear(); }

  static std::string Role() {
    char role[64];
    ReadRole(&Get, role, sizeof(role));
    return role;
  }
};

TEST_F(EnvironmentTest, KillSwitch) {
  EXPECT_FALSE(Disabled(&Get));
  for (const char* no : {"", "0", "false", "No", "OFF"}) {
    Variables()["JOBSCOPE_DISABLE"] = no;
    EXPECT_FALSE(Disabled(&Get)) << no;
  }
  for (const char* yes : {"1", "true", "yes", "on", "please"}) {
    Variables()["JOBSCOPE_DISABLE"] = yes;
    EXPECT_TRUE(Disabled(&Get)) << yes;
  }
}

TEST_F(EnvironmentTest, DelayInRange) {
  int delay_ms = 20;
  EXPECT_TRUE(ReadDelayMs(&Get, &delay_ms));
  EXPECT_EQ(delay_ms, 20);
  for (const char* none : {"10001", "-1", "soon"}) {
    Variables()["JOBSCOPE_ATTACH_DELAY_MS"] = none;
    EXPECT_FALSE(ReadDelayMs(&Get, &delay_ms)) << none;
    EXPECT_EQ(delay_ms, 20) << none;
  }
  for (const int delay : {0, 500, 10'000}) {
    Variables()["JOBSCOPE_ATTACH_DELAY_MS"] = std::to_string(delay);
    EXPECT_TRUE(ReadDelayMs(&Get, &delay_ms));
    EXPECT_EQ(delay_ms, delay);
  }
}

TEST_F(EnvironmentTest, LevelsOfTheLog) {
  EXPECT_EQ(ReadLogLevel(&Get), LogLevel::kWarning);
  Variables()["JOBSCOPE_LOG_LEVEL"] = "off";
  EXPECT_EQ(ReadLogLevel(&Get), LogLevel::kOff);
  Variables()["JOBSCOPE_LOG_LEVEL"] = "debug";
  EXPECT_EQ(ReadLogLevel(&Get), LogLevel::kDebug);
  Variables()["JOBSCOPE_LOG_LEVEL"] = "OFF";
  EXPECT_EQ(ReadLogLevel(&Get), LogLevel::kOff);
  Variables()["JOBSCOPE_LOG_LEVEL"] = "Info";
  EXPECT_EQ(ReadLogLevel(&Get), LogLevel::kInfo);
  Variables()["JOBSCOPE_LOG_LEVEL"] = "loud";
  EXPECT_EQ(ReadLogLevel(&Get), LogLevel::kWarning);
}

// The library has no protobuf, so it reads the rank itself; it must be the rank that the server
// finds.
TEST_F(EnvironmentTest, LocalRankIsTheServers) {
  const char* const names[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                               "PMI_LOCAL_RANK", "SLURM_LOCALID"};
  const auto servers = [] {
    const v1::Identity identity = ProcessIdentity().Read();
    return identity.has_local_rank() ? identity.local_rank() : -1;
  };
  for (const char* name : names) unsetenv(name);
  EXPECT_EQ(LocalRank(&getenv), -1);
  EXPECT_EQ(servers(), -1);
  // From the outermost to the innermost: each one that is added wins.
  for (int i = 4; i >= 0; --i) {
    setenv(names[i], std::to_string(10 + i).c_str(), 1);
    EXPECT_EQ(LocalRank(&getenv), 10 + i);
    EXPECT_EQ(servers(), 10 + i);
  }
  for (const char* odd : {"", " ", "x", "3x", "3 x", "-1", "99999999999", "2147483648"}) {
    setenv("LOCAL_RANK", odd, 1);
    EXPECT_EQ(LocalRank(&getenv), 11) << odd;
    EXPECT_EQ(servers(), 11) << odd;
  }
  for (const char* blanks : {" 3", "3 ", "3\n", "\t3\r\n"}) {
    setenv("LOCAL_RANK", blanks, 1);
    EXPECT_EQ(LocalRank(&getenv), 3) << blanks;
    EXPECT_EQ(servers(), 3) << blanks;
  }
  for (const char* name : names) unsetenv(name);
}

TEST_F(EnvironmentTest, RoleIsWhatTheInnermostLauncherSaid) {
  EXPECT_EQ(Role(), "");
  Variables()["SLURM_LOCALID"] = "1";
  EXPECT_EQ(Role(), "SLURM_LOCALID=1");
  Variables()["SLURM_PROCID"] = "9";
  EXPECT_EQ(Role(), "SLURM_PROCID=9");
  Variables()["RANK"] = "3";
  EXPECT_EQ(Role(), "RANK=3");
}

TEST_F(EnvironmentTest, MarkOfALivingProcess) {
  char mark[96];
  WriteMark(getppid(), "RANK=3", mark, sizeof(mark));
  EXPECT_EQ(ReadMark(mark, getpid(), "RANK=3"), Above::kSameRole);
  EXPECT_EQ(ReadMark(mark, getpid(), "RANK=4"), Above::kOther);
  EXPECT_EQ(ReadMark(mark, getpid(), ""), Above::kOther);
  WriteMark(getppid(), "", mark, sizeof(mark));
  EXPECT_EQ(ReadMark(mark, getpid(), ""), Above::kNoRole);
  EXPECT_EQ(ReadMark(mark, getpid(), "RANK=0"), Above::kOther);
}

TEST_F(EnvironmentTest, MarkOfItselfOrOfTheDead) {
  char mark[96];
  WriteMark(getpid(), "RANK=3", mark, sizeof(mark));
  EXPECT_EQ(ReadMark(mark, getpid(), "RANK=3"), Above::kNobody);  // the same process, after exec
  EXPECT_TRUE(IsMarkOf(mark, getpid()));
  EXPECT_FALSE(IsMarkOf(mark, getppid()));
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  WriteMark(child, "RANK=3", mark, sizeof(mark));
  EXPECT_EQ(ReadMark(mark, getpid(), "RANK=3"), Above::kNobody);
}

TEST_F(EnvironmentTest, MarksThatAreNone) {
  for (const char* odd : {"", "x", "1", "0 ", "-1 RANK=3", "99999999999 RANK=3", "1x RANK=3"}) {
    EXPECT_EQ(ReadMark(odd, getpid(), "RANK=3"), Above::kNobody) << odd;
    EXPECT_FALSE(IsMarkOf(odd, getpid())) << odd;
  }
  EXPECT_EQ(ReadMark(nullptr, getpid(), "RANK=3"), Above::kNobody);
  EXPECT_FALSE(IsMarkOf(nullptr, getpid()));
}

}  // namespace
}  // namespace jobscope::attach
