// SPDX-License-Identifier: Apache-2.0
#include "common/threads/thread_name.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>

namespace jobscope {
namespace {

int64_t Tid() { return syscall(SYS_gettid); }

TEST(ThreadNameTest, IsWhatTheOsHas) {
  int64_t tid = 0;
  std::thread([&tid] {
    tid = Tid();
    ASSERT_EQ(pthread_setname_np(pthread_self(), "trainer"), 0);
    EXPECT_EQ(ThreadName(tid), "trainer");
    EXPECT_EQ(ThreadLineName(tid), "trainer/" + std::to_string(tid));
    // As Python's threads may be called, and what is not text.
    ASSERT_EQ(pthread_setname_np(pthread_self(), "two\nlines\xff"), 0);
    EXPECT_EQ(ThreadName(tid), "two\nlines\xff");
  }).join();
}

TEST(ThreadNameTest, NoThreadHasNoName) {
  for (const int64_t none : {int64_t{0}, int64_t{-1}, INT64_MAX}) {
    EXPECT_EQ(ThreadName(none), "");
    EXPECT_EQ(ThreadLineName(none), "thread/" + std::to_string(none));
  }
}

TEST(ThreadNameTest, OursBeginAlike) {
  EXPECT_TRUE(IsOwnThreadName("jobscope-drain"));
  EXPECT_FALSE(IsOwnThreadName("jobscope"));
  EXPECT_FALSE(IsOwnThreadName("my-jobscope-"));
  EXPECT_FALSE(IsOwnThreadName(""));
}

}  // namespace
}  // namespace jobscope
