// SPDX-License-Identifier: Apache-2.0
//
// Defines the texts in which the report says what to do about a finding.
#ifndef ANALYSIS_BLAME_ADVICE_H_
#define ANALYSIS_BLAME_ADVICE_H_

#include <array>
#include <string>
#include <string_view>

#include "analysis/steps/step_class.h"

namespace jobscope::analysis {

// Advice about one class of time.
struct Advice {
  StepClass step_class;
  std::string_view bound;      // if the class bounds one worker, or all of them
  std::string_view straggler;  // if a worker spends more time in the class than the others
};

// One entry per class, in the order of StepClass.
extern const std::array<Advice, kStepClasses> kAdvice;

// What limits the GPU (heat, power, clock) or the CPU (cgroup quota) of a worker, by its counters.
enum class Limit { kHeat, kPower, kClock, kQuota };

// Returns advice about `step_class` for a straggler, or for a worker that the class bounds. `name`:
// the name that takes most of that time, which may have advice of its own; empty: not known.
std::string_view AdviceFor(StepClass step_class, std::string_view name, bool straggler);

std::string_view AdviceForLimit(Limit limit);

// Returns advice for workers that wait for others, mostly for `who`, which may be chance. `when`
// says in how many steps: "in 3 of 40 steps".
std::string AdviceForLatest(const std::string& who, const std::string& when);

// Workers that wait for each other in turn.
inline constexpr std::string_view kAdviceForTurns =
    "they take turns in being late: batches of uneven size, or a machine that is short of CPU; a "
    "longer capture shows whether one of them is late more often";
// Workers that wait for each other within a step, although each works about as long per step.
inline constexpr std::string_view kAdviceWithinSteps =
    "they wait within the step, in which each works about as long: stages, layers or experts of "
    "uneven size; the timelines of --html show where";
// A thread that sleeps where no wait is recorded.
inline constexpr std::string_view kAdviceForSleep =
    "find what it waits for: put a scope, or jobscope.input_wait, around it, or capture with "
    "--python_tracer_level=1";

// Host work for which the device waits.
inline constexpr std::string_view kAdviceForIdleDevice =
    "the device waits for the host: no wait for its results in each step (item(), "
    "block_until_ready), compiled functions or CUDA graphs, fewer and larger operations, a larger "
    "batch, less Python in the loop";

// Time that no event explains, in a trace with Python functions. Names no function: their times are
// summed over all threads, including those that wait for work.
inline constexpr std::string_view kAdviceForPythonFunctions =
    "find it among the Python functions: see the rows $file.py:line function with the most self "
    "time in the table of scopes and operators; put a scope, or jobscope.input_wait, around what "
    "it calls there";

// A worker that takes longer than the others, but in each class at most their median.
inline constexpr std::string_view kAdviceNoClass =
    "compare it with each of the others by class (classes_ms of --json): no class of its own time "
    "takes longer than the others' median";

// Reports without a verdict.
inline constexpr std::string_view kAdviceNoSteps =
    "mark them: JOBSCOPE_STEP or jobscope.step; docs/frameworks.md shows which are inferred";
inline constexpr std::string_view kAdviceClippedSteps =
    "a step takes longer than the recording: capture longer, or --steps=8; if it hangs, "
    "--python_tracer_level=1 shows where";
inline constexpr std::string_view kAdviceFewSteps = "capture longer, or --steps=50";
inline constexpr std::string_view kAdviceFewCommonSteps =
    "number the steps alike in all workers; if they are, capture longer";
inline constexpr std::string_view kAdviceEmptySteps = "mark each step from its start to its end";
inline constexpr std::string_view kAdviceLosses =
    "capture again; docs/trace_format.md shows how to lose less, by the causes that --json "
    "(lost_by_cause) and --html list";
inline constexpr std::string_view kAdviceClocks =
    "run capture on a machine of the job, or nearer to it: the uncertainty is half of the shortest "
    "round trip to a worker's machine; own times need no common clock";
inline constexpr std::string_view kAdviceUnreadable =
    "fix the reason that is listed for each missing worker, and capture again";
inline constexpr std::string_view kAdviceMissing = "capture all workers";
inline constexpr std::string_view kAdviceMissingSteps = "capture all workers, with their steps";
inline constexpr std::string_view kAdviceSameCollectors =
    "capture all workers with the same collectors";
inline constexpr std::string_view kAdviceMembers = "capture all members, and their collectives";

}  // namespace jobscope::analysis

#endif  // ANALYSIS_BLAME_ADVICE_H_
