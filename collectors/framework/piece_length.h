// SPDX-License-Identifier: Apache-2.0
//
// Estimates how long a piece of a recording may be, so that it can be handed over in time.
#ifndef COLLECTORS_FRAMEWORK_PIECE_LENGTH_H_
#define COLLECTORS_FRAMEWORK_PIECE_LENGTH_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace jobscope::framework {

// Learns from the pieces of a process, over all its sessions. Not thread-safe.
class PieceLength {
 public:
  // Reads JOBSCOPE_FRAMEWORK_PIECE_MS: a fixed length, regardless of the time to hand pieces over.
  PieceLength();

  // Returns the length for a capture with this much memory.
  absl::Duration For(uint64_t store_bytes) const;

  // Notes how long a piece of length `recorded` took to be handed over, and how large it was.
  void NoteHandover(absl::Duration handover, absl::Duration recorded);
  void NoteSize(size_t bytes, absl::Duration recorded);

 private:
  const absl::Duration fixed_;   // 0: none
  double handover_cost_ = 0;     // seconds per recorded second; 0: unknown
  double bytes_per_second_ = 0;  // recorded; 0: unknown
};

}  // namespace jobscope::framework

#endif  // COLLECTORS_FRAMEWORK_PIECE_LENGTH_H_
