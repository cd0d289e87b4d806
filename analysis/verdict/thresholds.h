// SPDX-License-Identifier: Apache-2.0
//
// Defines every threshold of the verdicts, with its reason.
#ifndef ANALYSIS_VERDICT_THRESHOLDS_H_
#define ANALYSIS_VERDICT_THRESHOLDS_H_

#include <cstddef>

namespace jobscope::analysis {

// Fewer steps give no interval worth the name: of 8 a bootstrap omits any single one in a third of
// its draws.
inline constexpr size_t kMinSteps = 8;

// A straggler's own time lies this many robust standard deviations above the median of the ranks.
inline constexpr double kMinZScore = 3.5;
// A standard deviation between ranks below this part of their median is taken as this: equal
// machines differ by as much, and a median distance of 0 would blame anybody.
inline constexpr double kMinSpread = 0.01;
// Of two or three ranks no spread can be told: the excess must be this part of the others' time.
inline constexpr size_t kFewWorkers = 4;
inline constexpr double kMinExcessOfFew = 0.08;
// What mending must bring, of the time of all steps, and what it brings at least with 97.5 %.
inline constexpr double kMinGain = 0.03;
inline constexpr double kMinGainLow = 0.01;
// How often one of several equal workers may seem slower than the rest, if steps vary
// independently.
inline constexpr double kFalseAlarm = 0.02;
// One step that takes this part of the whole run is a finding by itself.
inline constexpr double kMinSingleGain = 0.1;

// Losses of the blamed worker's step thread beyond this part of its events may hide the cause.
inline constexpr double kMaxLost = 0.005;

// A worker without collectives whose steps take this much longer than the others' is named: such
// workers may be different programs, whose times differ for good reasons.
inline constexpr double kSlowWorker = 1.25;

// Ranks' step times differ by less than this: they run in step.
inline constexpr double kEqual = 0.03;

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_THRESHOLDS_H_
