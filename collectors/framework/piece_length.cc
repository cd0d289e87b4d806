// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/piece_length.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "common/process/own_environment.h"

namespace jobscope::framework {
namespace {

// Length of the first piece of a process, as long as most captures. Later pieces are as long as
// what can be handed over within kHandoverBudget, estimated from earlier ones. Stop has 2 s in
// total.
constexpr absl::Duration kFirstPiece = absl::Milliseconds(2500);
constexpr absl::Duration kShortestPiece = absl::Milliseconds(200);
constexpr absl::Duration kLongestPiece = absl::Seconds(20);
constexpr absl::Duration kHandoverBudget = absl::Milliseconds(500);
// Share of the capture's memory for what the framework keeps of one piece: it has up to three
// copies.
constexpr double kPieceShare = 0.25;
// Minimum recording time for an estimate of the costs of longer ones.
constexpr absl::Duration kTellingPiece = absl::Milliseconds(100);

// Returns JOBSCOPE_FRAMEWORK_PIECE_MS: a fixed length of pieces, regardless of the time to hand
// them over. 0: not set.
absl::Duration FixedPiece() {
  const std::string text = OwnVariable("JOBSCOPE_FRAMEWORK_PIECE_MS").value_or("");
  int64_t ms = 0;
  if (!absl::SimpleAtoi(text, &ms) || ms < 0) return absl::ZeroDuration();
  return std::min(absl::Milliseconds(ms), kLongestPiece);
}

// Returns how many threads compete for each processor: everything takes that many times longer.
double Overload() {
  double waiting = 0;
  if (getloadavg(&waiting, 1) != 1) return 1;
  return std::max(1.0, waiting / std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace

PieceLength::PieceLength() : fixed_(FixedPiece()) {}

absl::Duration PieceLength::For(uint64_t store_bytes) const {
  if (fixed_ > absl::ZeroDuration()) return fixed_;
  absl::Duration length =
      handover_cost_ > 0 ? kHandoverBudget / handover_cost_ : kFirstPiece / Overload();
  if (bytes_per_second_ > 0) {
    const double bytes = static_cast<double>(store_bytes) * kPieceShare;
    length = std::min(length, absl::Seconds(bytes / bytes_per_second_));
  }
  return std::clamp(length, kShortestPiece, kLongestPiece);
}

void PieceLength::NoteHandover(absl::Duration handover, absl::Duration recorded) {
  if (recorded < kTellingPiece) return;
  handover_cost_ = std::max(absl::FDivDuration(handover, recorded), handover_cost_ / 2);
}

void PieceLength::NoteSize(size_t bytes, absl::Duration recorded) {
  if (recorded < kTellingPiece) return;
  bytes_per_second_ =
      std::max(static_cast<double>(bytes) / absl::ToDoubleSeconds(recorded), bytes_per_second_ / 2);
}

}  // namespace jobscope::framework
