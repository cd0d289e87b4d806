// SPDX-License-Identifier: Apache-2.0
//
// Encodes the samples of a counter.
#ifndef COMMON_XSPACE_SEGMENT_COUNTER_H_
#define COMMON_XSPACE_SEGMENT_COUNTER_H_

#include <cstdint>
#include <string_view>

#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"

namespace jobscope::xspace {

// One counter of a counters line: its samples are events of 1 ps, each with one statistic. Event
// and statistic have the counter's name. Not thread-safe.
class Counter {
 public:
  // Declares both names. Leaves the counter undeclared if the store has no space for them; a later
  // call tries again.
  void Declare(Names* names, PlaneKey plane, std::string_view name);
  bool declared() const { return event_ != 0 && stat_ != 0; }

  // Adds a sample to the line of `builder`. The counter must be declared.
  void AddSample(int64_t at_ps, double value, SegmentBuilder* builder) const;

 private:
  uint64_t event_ = 0;
  uint64_t stat_ = 0;
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_SEGMENT_COUNTER_H_
