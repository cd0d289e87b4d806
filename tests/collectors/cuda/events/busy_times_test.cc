// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/events/busy_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace jobscope::cuda {
namespace {

TEST(BusyTimesTest, WhatOverlapsIsRefused) {
  BusyTimes busy;
  EXPECT_TRUE(busy.Add(100, 200));
  for (const auto& [begin, end] : std::vector<std::pair<uint64_t, uint64_t>>{
           {100, 200}, {50, 101}, {199, 300}, {120, 130}, {50, 300}, {150, 150}}) {
    EXPECT_FALSE(busy.Add(begin, end)) << begin;
  }
  EXPECT_TRUE(busy.Add(200, 250));
  EXPECT_TRUE(busy.Add(50, 100));
  EXPECT_TRUE(busy.Add(300, UINT64_MAX));
  EXPECT_FALSE(busy.Add(1'000, 1'001));
  EXPECT_TRUE(busy.Add(250, 300));
  EXPECT_TRUE(busy.Add(0, 50));
  EXPECT_FALSE(busy.Add(0, 1));
  EXPECT_FALSE(busy.Add(299, 301));
}

TEST(BusyTimesTest, TheOrderOfArrivalDoesNotMatter) {
  std::vector<uint64_t> begins;
  for (uint64_t i = 0; i < 1'000; ++i) begins.push_back(i * 10);
  std::shuffle(begins.begin(), begins.end(), std::mt19937(1));
  BusyTimes busy;
  for (const uint64_t begin : begins) {
    // Neighbours touch, or are 5 apart.
    EXPECT_TRUE(busy.Add(begin, begin + (begin % 20 == 0 ? 10 : 5))) << begin;
  }
  for (const uint64_t begin : begins) {
    EXPECT_FALSE(busy.Add(begin, begin + 1)) << begin;
    if (begin % 20 == 0) continue;
    EXPECT_TRUE(busy.Add(begin + 5, begin + 10)) << begin;
  }
}

TEST(BusyTimesTest, TheOldestAreForgottenAndTheirTimesAreNotFree) {
  constexpr uint64_t kMany = BusyTimes::kMaxIntervals + 100;
  BusyTimes busy;
  for (uint64_t i = 0; i < kMany; ++i) EXPECT_TRUE(busy.Add(i * 10, i * 10 + 5));
  EXPECT_FALSE(busy.Add(6, 9));
  EXPECT_FALSE(busy.Add(99 * 10 + 4, 99 * 10 + 9));
  EXPECT_TRUE(busy.Add(kMany * 10 / 2 + 6, kMany * 10 / 2 + 9));
}

}  // namespace
}  // namespace jobscope::cuda
