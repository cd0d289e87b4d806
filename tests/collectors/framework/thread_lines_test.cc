// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/thread_lines.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"

namespace jobscope::framework {
namespace {

int64_t OwnLine() {
  return static_cast<int64_t>(std::hash<std::thread::id>()(std::this_thread::get_id()));
}

TEST(ThreadLinesTest, ALineHasTheHashOfItsThread) {
  ThreadLines lines;
  EXPECT_EQ(lines.Find(OwnLine()), std::nullopt);
  lines.Add(absl::StrCat("1:2,", static_cast<uint64_t>(pthread_self()), ":4711"));
  EXPECT_EQ(lines.Find(OwnLine()), 4711);
  EXPECT_EQ(lines.Find(OwnLine() + 1), std::nullopt);
  lines.Clear();
  EXPECT_EQ(lines.Find(OwnLine()), std::nullopt);
}

TEST(ThreadLinesTest, WhatDoesNotParseEndsTheList) {
  ThreadLines lines;
  for (const char* text : {"", ",", ":", "x", "1", "1:", "1:2;", "x,1:2"}) lines.Add(text);
  lines.Add(absl::StrCat("x,", static_cast<uint64_t>(pthread_self()), ":4711"));
  EXPECT_EQ(lines.Find(OwnLine()), std::nullopt);
}

}  // namespace
}  // namespace jobscope::framework
