// SPDX-License-Identifier: Apache-2.0
//
// Collects what is known of the clocks of a run's workers. Workers that read one clock share its
// measurements.
#ifndef CLIENT_FAN_OUT_RUN_CLOCKS_H_
#define CLIENT_FAN_OUT_RUN_CLOCKS_H_

#include <map>
#include <string>

#include "client/clock/clock_sync.h"
#include "client/fan_out/roster.h"

namespace jobscope {

// Combines the clock measurements of a run. Used by the deciding thread only.
class RunClocks {
 public:
  // Returns whether the clock of `slot`, which is armed, must be measured. Counts it if so.
  bool NeedsPings(const Slot& slot);

  // Narrows each measurement by the others. Call it once, before the start.
  void Combine(Roster* roster);

  // Narrows the clock of a worker that was armed after Combine.
  void CombineLate(Slot* slot) const;

 private:
  std::map<std::string, int> pinged_;              // workers, by clock id
  std::map<std::string, ClockEstimate> combined_;  // the narrowest, by clock id
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_RUN_CLOCKS_H_
