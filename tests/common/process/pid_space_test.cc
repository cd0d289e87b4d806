// SPDX-License-Identifier: Apache-2.0
#include "common/process/pid_space.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace jobscope {
namespace {

// The state of the process's first thread: 'Z' when it has ended.
char StateOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? '?' : text[name_end + 2];
}

TEST(PidSpace, IsThatOfThisProcess) {
  EXPECT_FALSE(PidSpace().empty());
  EXPECT_EQ(PidSpace().find("/pid:["), PidSpace().rfind('/'));
}

TEST(PidSpace, AProcessThatLivesHasNotEnded) {
  EXPECT_FALSE(HasEnded(getpid()));
  EXPECT_FALSE(HasEnded(1));  // somebody else's
}

TEST(PidSpace, OneThatNobodyHasWaitedForHasEnded) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(StateOf(child), 'Z');
  EXPECT_TRUE(HasEnded(child));
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(HasEnded(child));
}

void* Pause(void*) {
  while (true) pause();
}

// Looks like a process that has ended: its first thread has.
TEST(PidSpace, OneWhoseFirstThreadHasEndedLives) {
  const pid_t child = fork();
  if (child == 0) {
    pthread_t other;
    if (pthread_create(&other, nullptr, &Pause, nullptr) != 0) _exit(1);
    syscall(SYS_exit, 0);  // of this thread; pthread_exit would unwind the test
  }
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  while (StateOf(child) != 'Z' && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(StateOf(child), 'Z');
  EXPECT_FALSE(HasEnded(child));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(HasEnded(child));
}

TEST(PidSpace, WhatIsNoProcessIdIsNotKnown) {
  for (const int64_t pid : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{INT_MAX} + 1}) {
    EXPECT_FALSE(HasEnded(pid)) << pid;
  }
}

}  // namespace
}  // namespace jobscope
