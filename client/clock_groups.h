// SPDX-License-Identifier: Apache-2.0
//
// Workers of one host read one clock: what was measured of each narrows it for all.
#ifndef CLIENT_CLOCK_GROUPS_H_
#define CLIENT_CLOCK_GROUPS_H_

#include <optional>
#include <string>
#include <vector>

#include "client/clock_sync.h"

namespace jobscope {

struct MeasuredClock {
  std::string clock_id;                   // DescribeResponse.clock_id; empty: a group of its own
  std::optional<ClockEstimate> estimate;  // absent: was not measured, and stays so
};

// Each estimate is an interval that contains the true offset. Where all intervals of a group have a
// common part, each member gets that part; in the group of `own_clock_id`, whose true offset is 0,
// members get exactly that if 0 is in the common part. A group without a common part does not share
// a clock, whatever the ids say: it is left alone. So no interval gets wider, and one slow or
// lopsided path does not spoil the alignment of workers that share a clock with a near one.
void CombineClocks(const std::string& own_clock_id, std::vector<MeasuredClock>* clocks);

}  // namespace jobscope

#endif  // CLIENT_CLOCK_GROUPS_H_
