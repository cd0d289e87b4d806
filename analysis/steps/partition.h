// SPDX-License-Identifier: Apache-2.0
//
// Divides the time of one worker's steps into classes. Pure functions; uses no file and no clock.
#ifndef ANALYSIS_STEPS_PARTITION_H_
#define ANALYSIS_STEPS_PARTITION_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/steps/intervals.h"
#include "analysis/steps/step_class.h"

namespace jobscope::analysis {

// One step of the step thread.
struct StepSpan {
  int64_t number = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  // In its account, which begins with the end of the step before: how long its thread was runnable
  // without getting a CPU, and how long it ran.
  std::optional<int64_t> not_running_ns;
  std::optional<int64_t> cpu_ns;
};

// Returns the account of each step: the time from the end of the previous step to its own end, so
// that a gap belongs to the step after it. The account of the first step, and of one whose number
// does not follow (steps are missing before it), begins at its own begin. `steps` must be sorted by
// begin; an overlap is cut off from the later one. Same size as `steps`.
std::vector<Interval> AccountsOf(const std::vector<StepSpan>& steps);

// Time in which the step thread ran leaf events. A series of short events with short gaps is one
// block.
struct BusyBlock {
  Interval span;
  bool merged = false;  // of several events
  // A scope of the program, in which it may wait for a collective that it called before.
  bool may_wait = false;
};

// One collective operation, from its call to its end.
struct CollectiveSpan {
  Interval span;
  bool on_device = false;  // a kernel: other computations of the device meanwhile are no wait
};

// Everything recorded of a worker's step thread and devices. Intervals of different classes may
// overlap.
struct RecordedTimes {
  Intervals device_compute;
  Intervals device_copy;
  Intervals input;
  Intervals compilation;
  Intervals garbage_collection;
  Intervals gil;
  Intervals launch;
  Intervals host;  // any scope or operator of the step thread
  // The same two of threads that work while the step thread waits for them.
  Intervals helper_launch;
  Intervals helper_host;
  std::vector<CollectiveSpan> collectives;  // sorted by begin
  std::vector<BusyBlock> busy;              // sorted by begin, disjoint
};

struct Partition {
  // Time per class and step. An empty column: nothing recorded that class. kWaiting and kTransfer
  // stay empty, because only other workers' data separate them. The columns and `blocked_ns` add up
  // exactly to the accounts.
  std::array<std::vector<int64_t>, kStepClasses> class_ns;
  std::vector<int64_t> blocked_ns;  // in collectives; empty if there are none
  // Per collective: when it blocked the worker, cut at the borders of accounts. Disjoint over all
  // collectives.
  std::vector<Intervals> blocked;
  // Per step with `cpu_ns` and `not_running_ns`: how long at least its thread slept in host, launch
  // or unexplained time, which no recorded wait and no work of a helper accounts for.
  std::vector<int64_t> asleep_ns;
};

// Divides accounts into classes. Each instant belongs to the first of these that covers it: device
// compute, input, a collective, device copies, compilation, garbage collection, GIL, launch, host
// (these two also of helpers), unexplained. Time in which the step's thread was not running is then
// subtracted from host, launch and unexplained in proportion, at most their sum.
Partition PartitionSteps(const std::vector<StepSpan>& steps, const std::vector<Interval>& accounts,
                         const RecordedTimes& times);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_STEPS_PARTITION_H_
