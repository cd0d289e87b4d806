// SPDX-License-Identifier: Apache-2.0
//
// Measures how long a thread has wanted a processor without getting one.
#ifndef COMMON_PROCESS_STARVATION_H_
#define COMMON_PROCESS_STARVATION_H_

#include <sys/types.h>

#include <optional>

#include "common/process/proc_files.h"
#include "common/sync/mutex.h"

namespace jobscope {

// Measures for how long a thread of this process has waited for a processor since this object was
// made: on an overloaded machine a thread that is late does not hang, it is not scheduled. Making
// and reading it each take about 20 us and need a free file descriptor. Not thread-safe.
class Starvation {
 public:
  using Clock = CondVar::Clock;  // its callers add Lasted to the deadline of a wait

  explicit Starvation(pid_t thread);

  // Zero if there is no such thread, or if the kernel does not count this.
  Clock::duration Lasted() const;

 private:
  // Processor time that the thread has used and waited for since it began.
  struct Schedule {
    ThreadTimes times;
    bool runnable = false;  // currently running, or waiting for a processor
  };
  std::optional<Schedule> ReadSchedule() const;

  const pid_t thread_;
  const std::optional<Schedule> begin_;
  const Clock::time_point begin_time_;
};

}  // namespace jobscope

#endif  // COMMON_PROCESS_STARVATION_H_
