// SPDX-License-Identifier: Apache-2.0
//
// Shows a capture's progress on stderr: a line that is redrawn on a terminal, a line per event
// elsewhere.
#ifndef CLIENT_TERMINAL_PROGRESS_H_
#define CLIENT_TERMINAL_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "client/terminal/stderr_writer.h"

namespace jobscope {

// Numbers of workers by what they are doing.
struct ProgressCounts {
  size_t total = 0;
  size_t connecting = 0;  // queued, connecting, waiting for another attempt
  size_t arming = 0;
  size_t ready = 0;  // armed: waiting for the start
  size_t recording = 0;
  size_t collecting = 0;  // the planned end has passed, the answer has not arrived
  size_t writing = 0;
  size_t delivered = 0;
  size_t failed = 0;
  absl::Duration left;  // until the planned end of the last recording; 0 or less: over
  // So far, over the workers that report progress.
  uint64_t events = 0;
  uint64_t lost = 0;
  uint64_t bytes = 0;
  // Whole steps that all workers have recorded, and those requested; 0: steps were not requested.
  uint64_t steps = 0;
  uint64_t steps_wanted = 0;
};

// Belongs to the thread that runs the fan-out. Not thread-safe. Never blocks, except in Flush.
// Never fails: ignores a closed terminal.
class Progress {
 public:
  enum class Mode { kQuiet, kLines, kLive };
  // Returns kLive if stderr is a terminal that can redraw a line, else kLines.
  static Mode ModeFor(bool quiet);

  explicit Progress(Mode mode) : mode_(mode) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows the counts: on a terminal at most ten times per second, elsewhere only if a phase has
  // changed.
  void Update(const ProgressCounts& counts);
  // Writes one line that stays.
  void Line(const std::string& text);
  // Ends the live line.
  void Clear();
  // Blocks until all output is written, for at most a second: later output appears after it.
  void Flush();

  // Returns how often to call Update without news.
  absl::Duration period() const;
  // Returns whether Update would redraw the line. `now`: SteadyNow (common/clock/monotonic.h).
  bool IsDue(absl::Time now) const;

 private:
  const Mode mode_;
  StderrWriter writer_;
  bool live_ = false;
  absl::Time drawn_ = absl::InfinitePast();
  std::string last_phase_;
};

// Returns "recording 3 of 4 workers, 1.2 s left, 1 failed": one line without a break.
std::string ProgressText(const ProgressCounts& counts, bool live);

}  // namespace jobscope

#endif  // CLIENT_TERMINAL_PROGRESS_H_
