// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/piece_length.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "absl/time/time.h"

namespace jobscope::framework {
namespace {

constexpr uint64_t kStoreBytes = 100'000'000;

double SecondsOf(const PieceLength& length) {
  return absl::ToDoubleSeconds(length.For(kStoreBytes));
}

TEST(PieceLengthTest, TheFirstPieceIsShort) {
  const PieceLength length;
  EXPECT_GE(SecondsOf(length), 0.2);
  EXPECT_LE(SecondsOf(length), 2.5);
}

TEST(PieceLengthTest, LaterPiecesCanBeHandedOverInHalfASecond) {
  PieceLength length;
  length.NoteHandover(absl::Milliseconds(100), absl::Seconds(1));
  EXPECT_NEAR(SecondsOf(length), 5, 1e-3);
  // One that was cheap doubles the length at most.
  length.NoteHandover(absl::Milliseconds(1), absl::Seconds(1));
  EXPECT_NEAR(SecondsOf(length), 10, 1e-3);
  length.NoteHandover(absl::Milliseconds(500), absl::Seconds(1));
  EXPECT_NEAR(SecondsOf(length), 1, 1e-3);
}

TEST(PieceLengthTest, APieceFitsIntoAShareOfTheMemory) {
  PieceLength length;
  length.NoteHandover(absl::Milliseconds(100), absl::Seconds(1));
  length.NoteSize(kStoreBytes / 10, absl::Seconds(1));
  EXPECT_NEAR(SecondsOf(length), 2.5, 1e-3);
}

TEST(PieceLengthTest, IsBounded) {
  PieceLength slow;
  slow.NoteHandover(absl::Seconds(100), absl::Seconds(1));
  EXPECT_NEAR(SecondsOf(slow), 0.2, 1e-3);
  PieceLength fast;
  fast.NoteHandover(absl::Milliseconds(1), absl::Seconds(10));
  EXPECT_NEAR(SecondsOf(fast), 20, 1e-3);
}

TEST(PieceLengthTest, AShortRecordingTeachesNothing) {
  PieceLength length;
  length.NoteHandover(absl::Milliseconds(100), absl::Seconds(1));
  length.NoteHandover(absl::Seconds(1), absl::Milliseconds(99));
  length.NoteSize(kStoreBytes, absl::Milliseconds(99));
  EXPECT_NEAR(SecondsOf(length), 5, 1e-3);
}

}  // namespace
}  // namespace jobscope::framework
