// SPDX-License-Identifier: Apache-2.0
//
// Variables of a caller that has fewer rights than the program: a copy of this test with the
// set-user-ID bit, executed as another user.
#include "common/process/own_environment.h"

#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

constexpr char kVariable[] = "JOBSCOPE_OWN_ENVIRONMENT_TEST";
constexpr uid_t kLesserUser = 65533;
enum ExitCode { kIgnored = 10, kRead, kLost, kNoMoreRights, kCannotRun };

[[noreturn]] void ExecuteAsLesserUser(const std::string& program) {
  std::string name = program;
  std::string filter = "--gtest_filter=*DISABLED_ExitsWithWhatItSees";
  std::string disabled = "--gtest_also_run_disabled_tests";
  std::string variable = std::string(kVariable) + "=set";
  char* arguments[] = {name.data(), filter.data(), disabled.data(), nullptr};
  char* environment[] = {variable.data(), nullptr};
  if (setresuid(kLesserUser, kLesserUser, kLesserUser) == 0) {
    execve(program.c_str(), arguments, environment);
  }
  _exit(kCannotRun);
}

// Executed by the test below.
TEST(OwnEnvironmentTest, DISABLED_ExitsWithWhatItSees) {
  if (getauxval(AT_SECURE) == 0) _exit(kNoMoreRights);
  if (OwnVariable(kVariable).has_value()) _exit(kRead);
  _exit(CallersVariables({kVariable}).size() == 1 ? kIgnored : kLost);
}

TEST(OwnEnvironmentTest, OfACallerWithFewerRightsIsIgnored) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const TemporaryDirectory folder;
  const std::string program = folder.path() + "/program";
  std::filesystem::copy_file(std::filesystem::read_symlink("/proc/self/exe"), program);
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  const pid_t child = fork();
  if (child == 0) ExecuteAsLesserUser(program);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == kNoMoreRights) GTEST_SKIP() << "the bit has no effect here (nosuid)";
  // Libraries of the build may be in folders that only root may search.
  if (WEXITSTATUS(status) == 127) GTEST_SKIP() << "another user cannot load this test's libraries";
  EXPECT_EQ(WEXITSTATUS(status), kIgnored);
}

TEST(OwnEnvironmentTest, ReadsAVariable) {
  ASSERT_EQ(setenv(kVariable, "value", 1), 0);
  EXPECT_EQ(OwnVariable(kVariable).value_or(""), "value");
  ASSERT_EQ(unsetenv(kVariable), 0);
  EXPECT_FALSE(OwnVariable(kVariable).has_value());
}

}  // namespace
}  // namespace jobscope
