// SPDX-License-Identifier: Apache-2.0
//
// Maps CUPTI's clock to ticks.
#ifndef COLLECTORS_CUDA_RECORDS_CLOCK_MAP_H_
#define COLLECTORS_CUDA_RECORDS_CLOCK_MAP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace jobscope::cuda {

// Maps CUPTI's clock to ticks, piecewise linearly between knots: readings of CUPTI's clock between
// two readings of the ticks. CUPTI gives nanoseconds of CLOCK_REALTIME, which NTP slews by up to
// 500 ppm and may step; after a step a new piece begins. Another profiler of the process may have
// given CUPTI a clock of another unit, which stays when it has ended: PyTorch's gives it the TSC.
// Not thread-safe.
class ClockMap {
 public:
  // `cupti_time` reads CUPTI's clock, `ticks` reads ours.
  using Read = std::function<uint64_t()>;
  ClockMap(Read cupti_time, Read ticks, double ticks_per_second);

  // Adds the narrowest of a few bracketed readings as the next knot. Takes some microseconds, at
  // the first knot and after a step some 20 more.
  void AddKnot();
  // Sets the ticks' rate, more exactly than the constructor knew it.
  void SetRate(double ticks_per_second);

  uint64_t ToTicks(uint64_t cupti_time) const;

  size_t steps() const { return steps_; }  // clock steps seen between two knots
  size_t knots() const { return knots_.size(); }

 private:
  struct Knot {
    uint64_t time = 0;  // CUPTI's
    uint64_t ticks = 0;
    double rate = 0;  // ticks per unit of CUPTI's clock, from here to the next knot
  };
  // Where the rate of a piece comes from.
  enum class Rate {
    kNanoseconds,  // that of the ticks: CUPTI's clock counts nanoseconds
    kGuessed,      // of another clock, from two readings in quick succession
    kMeasured,     // of another clock, between two knots
  };

  // Returns the narrowest of a few bracketed readings; its ticks are 0 if CUPTI has no clock.
  Knot ReadBoth();
  // Begins a piece at `first`: finds out what CUPTI's clock counts.
  void BeginPiece(Knot* first);

  const Read cupti_time_;
  const Read ticks_;
  double ticks_per_ns_;
  Rate source_ = Rate::kNanoseconds;
  double rate_;  // of the piece
  std::vector<Knot> knots_;
  size_t steps_ = 0;
  double max_bracket_ticks_ = 0;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_CLOCK_MAP_H_
