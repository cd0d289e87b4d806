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
// 500 ppm and may step; after a step a new piece begins. Not thread-safe.
class ClockMap {
 public:
  // `cupti_ns` reads CUPTI's clock, `ticks` reads ours.
  using Read = std::function<uint64_t()>;
  ClockMap(Read cupti_ns, Read ticks, double ticks_per_second);

  // Adds the narrowest of a few bracketed readings as the next knot.
  void AddKnot();
  // Sets the rate used before there are two knots.
  void SetRate(double ticks_per_second) { ticks_per_ns_ = ticks_per_second * 1e-9; }

  uint64_t ToTicks(uint64_t cupti_ns) const;

  size_t steps() const { return steps_; }  // clock steps seen between two knots
  double max_bracket_ns() const { return max_bracket_ticks_ / ticks_per_ns_; }
  size_t knots() const { return knots_.size(); }

 private:
  struct Knot {
    uint64_t ns = 0;
    uint64_t ticks = 0;
    double ticks_per_ns = 0;  // from here to the next knot
  };

  const Read cupti_ns_;
  const Read ticks_;
  double ticks_per_ns_;
  std::vector<Knot> knots_;
  size_t steps_ = 0;
  double max_bracket_ticks_ = 0;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_CLOCK_MAP_H_
