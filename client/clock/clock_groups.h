// SPDX-License-Identifier: Apache-2.0
//
// Combines the clock measurements of workers that read one clock (those of one host): each narrows
// the others.
#ifndef CLIENT_CLOCK_CLOCK_GROUPS_H_
#define CLIENT_CLOCK_CLOCK_GROUPS_H_

#include <optional>
#include <string>
#include <vector>

#include "client/clock/clock_sync.h"

namespace jobscope {

struct MeasuredClock {
  std::string clock_id;                   // DescribeResponse.clock_id; empty: a group of its own
  std::optional<ClockEstimate> estimate;  // absent: was not measured, and stays so
};

// Returns whether 0 is within the estimate: the measured clock may be our own.
bool MayBeOurs(const ClockEstimate& clock);

// Each estimate is an interval that contains the true offset. In the group of `own_clock_id`, whose
// true offset is 0, each member whose interval contains 0 gets exactly that. If all intervals of
// another group intersect, each member gets the intersection. A group without an intersection does
// not share a clock, whatever the ids say, and is left unchanged. So no interval gets wider, and
// one slow or asymmetric path does not spoil the alignment of workers that share a clock with a
// near one.
void CombineClocks(const std::string& own_clock_id, std::vector<MeasuredClock>* clocks);

}  // namespace jobscope

#endif  // CLIENT_CLOCK_CLOCK_GROUPS_H_
