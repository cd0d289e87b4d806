// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/graph_recordings.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>

namespace jobscope::cuda {
namespace {

constexpr bool kBegin = true;
constexpr bool kEnd = false;

class GraphRecordingsTest : public ::testing::Test {
 protected:
  void ExpectAt(std::initializer_list<uint64_t> times) {
    for (const uint64_t ticks : times) EXPECT_TRUE(recordings_.At(ticks)) << ticks;
  }
  void ExpectNotAt(std::initializer_list<uint64_t> times) {
    for (const uint64_t ticks : times) EXPECT_FALSE(recordings_.At(ticks)) << ticks;
  }

  GraphRecordings recordings_;
};

TEST_F(GraphRecordingsTest, LastFromBeginToEnd) {
  ExpectNotAt({0, 15});
  recordings_.Note(1, 20, kEnd);  // buffers arrive in any order
  recordings_.Note(1, 10, kBegin);
  ExpectAt({10, 19});
  ExpectNotAt({9, 20, 1000});
  recordings_.Note(2, 40, kBegin);
  ExpectAt({40, 1000});
}

// The driver's calls lie within those of the runtime.
TEST_F(GraphRecordingsTest, MayBeNested) {
  recordings_.Note(1, 10, kBegin);
  recordings_.Note(1, 12, kBegin);
  recordings_.Note(1, 20, kEnd);
  recordings_.Note(1, 22, kEnd);
  ExpectAt({10, 12, 19, 21});
  ExpectNotAt({9, 22, 1000});
}

TEST_F(GraphRecordingsTest, AnotherThreadMayEndThem) {
  for (uint64_t begin = 100; begin <= 300; begin += 100) {
    recordings_.Note(1, begin, kBegin);
    recordings_.Note(2, begin + 10, kEnd);
  }
  ExpectAt({100, 109, 200, 209, 300, 309});
  ExpectNotAt({5, 99, 110, 199, 210, 299, 310, 1000});
}

TEST_F(GraphRecordingsTest, AThreadEndsItsOwnFirst) {
  recordings_.Note(1, 100, kBegin);
  recordings_.Note(2, 110, kEnd);  // began before the first record
  recordings_.Note(1, 200, kEnd);
  ExpectAt({0, 99, 109, 150, 199});
  ExpectNotAt({200, 1000});
}

TEST_F(GraphRecordingsTest, WithoutAnEndOneLastsUntilTheNext) {
  recordings_.Note(1, 100, kBegin);
  recordings_.Note(1, 200, kBegin);
  recordings_.Note(1, 210, kEnd);
  ExpectAt({150, 205});
  ExpectNotAt({99, 210, 1000});
}

TEST_F(GraphRecordingsTest, WithoutAnEndOneLastsUntilItsThreadRunsSomething) {
  recordings_.NoteRun(1, 50);  // before any recording
  recordings_.Note(1, 100, kBegin);
  recordings_.NoteRun(1, 90);
  recordings_.NoteRun(2, 110);  // another thread
  ExpectAt({100, 1000});
  for (const uint64_t ticks : {150, 130, 170}) recordings_.NoteRun(1, ticks);
  ExpectAt({100, 129});
  ExpectNotAt({99, 130, 1000});
  recordings_.Note(1, 200, kBegin);
  ExpectAt({200, 1000});
  ExpectNotAt({130, 199});
}

// Its thread launched into another stream meanwhile.
TEST_F(GraphRecordingsTest, AnEndCountsMoreThanWhatRanBefore) {
  recordings_.Note(1, 100, kBegin);
  recordings_.NoteRun(1, 150);
  recordings_.Note(1, 200, kEnd);
  ExpectAt({100, 160, 199});
  ExpectNotAt({200, 1000});
  recordings_.Note(2, 300, kBegin);
  recordings_.NoteRun(2, 350);
  recordings_.Note(3, 400, kEnd);  // in CUDA's relaxed mode
  ExpectAt({300, 360, 399});
  ExpectNotAt({400, 1000});
}

TEST_F(GraphRecordingsTest, WithoutABeginOnlyTheFirstHasLastedSinceBefore) {
  recordings_.Note(1, 100, kEnd);
  recordings_.Note(1, 200, kEnd);
  ExpectAt({0, 99});
  ExpectNotAt({100, 150, 200});
}

}  // namespace
}  // namespace jobscope::cuda
