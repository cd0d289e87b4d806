// SPDX-License-Identifier: Apache-2.0
//
// What is known of the clocks of a run's workers. Those that read one clock share what was measured
// of any of them.
#ifndef CLIENT_FAN_OUT_RUN_CLOCKS_H_
#define CLIENT_FAN_OUT_RUN_CLOCKS_H_

#include <map>
#include <string>

#include "client/clock/clock_sync.h"
#include "client/fan_out/roster.h"

namespace jobscope {

// For the deciding thread.
class RunClocks {
 public:
  // Whether the clock of `slot`, which is armed, must be measured. Counts it if so.
  bool NeedsPings(const Slot& slot);

  // Narrows what was measured of each by what was measured of the others. Once, before the start.
  void Combine(Roster* roster);

  // Narrows the clock of one that came after that.
  void CombineLate(Slot* slot) const;

 private:
  std::map<std::string, int> pinged_;              // workers, by clock id
  std::map<std::string, ClockEstimate> combined_;  // by clock id: the narrowest
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_RUN_CLOCKS_H_
