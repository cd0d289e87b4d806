// SPDX-License-Identifier: Apache-2.0
//
// Defines the thresholds of the verdicts, each with its reason. Elsewhere are the thresholds of the
// classes that bound a worker (analysis/blame/bounds.cc), and, where they are used, majorities
// ("more than half") and multiples of the clocks' uncertainty.
#ifndef ANALYSIS_STATISTICS_THRESHOLDS_H_
#define ANALYSIS_STATISTICS_THRESHOLDS_H_

#include <cstddef>

namespace jobscope::analysis {

// Minimum number of steps for a useful interval: with 8, a bootstrap omits any single one in a
// third of its draws.
inline constexpr size_t kMinSteps = 8;

// Minimum distance of a straggler's own time above the median of the ranks, in robust standard
// deviations.
inline constexpr double kMinZScore = 3.5;
// Lower bound of the standard deviation between ranks, relative to their median: equal machines
// differ this much, and a median distance of 0 would blame anybody.
inline constexpr double kMinSpread = 0.01;
// With fewer workers than this no spread can be computed, and with about half of them slow it is no
// measure: the excess over the slowest of the others must be this share of its time.
inline constexpr size_t kFewWorkers = 4;
inline constexpr double kMinExcessOfFew = 0.08;
// Minimum gain of a fix, as a share of the time of all steps: its estimate, and its lower bound
// with 97.5 % confidence.
inline constexpr double kMinGain = 0.03;
inline constexpr double kMinGainLow = 0.01;
// Maximum difference between the modelled and the measured step, as a share of the latter, at which
// the model's estimate of a gain has an interval: equal ranks in step differ by a few percent.
inline constexpr double kMaxModelError = 0.1;
// Probability that one of several equal workers appears slower than the rest, if steps vary
// independently.
inline constexpr double kFalseAlarm = 0.02;
// Minimum lateness of the last worker in a step in which it is called late, relative to the mean
// over all steps. Who is late in more than a quarter of the steps is found by its mean own time.
inline constexpr double kMinDelay = 4;
// Minimum gain of fixing all outliers together, as a multiple of that of the best one alone, at
// which they are one finding: each hides behind the others. With less, the best one alone is at
// least half of the answer.
inline constexpr double kTogetherOverBest = 2;
// Share of the whole run from which on one step is a finding by itself.
inline constexpr double kMinSingleGain = 0.1;

// Minimum share of device compute from which on a step uses its device: with less, host work is the
// computation itself, however idle the device is.
inline constexpr double kMinDeviceShare = 0.05;

// Minimum ratio of the gain of a bound of all workers to that of a straggler at which the bound
// is the verdict.
inline constexpr double kBoundOverStraggler = 3;

// Share of the largest excess, or of its class, below which a name is no cause, and of the largest
// change below which a class does not explain it: a fix of it gains less than a tenth of what a fix
// of the largest one does.
inline constexpr double kMinOfLargest = 0.1;
// Maximum part of a name's time that may be in doubt for the time to count as known. Of a name of
// one rank, the digests of the others may have left out as much as their smallest names took.
inline constexpr double kMaxDoubt = 0.1;
// Minimum share of the excess in a class that sleep must explain to be reported: with less, the
// thread works most of that time, and the names explain more.
inline constexpr double kMinAsleep = 0.5;
// Minimum excess over the others' median of the share of samples in which a GPU's clocks are
// limited: in the 20 samples of 2 s, that share varies by a tenth by chance.
inline constexpr double kMinLimitedSamples = 0.2;
// SM clock relative to the others' median below which it is a cause: boost clocks of equal GPUs
// differ by a few percent.
inline constexpr double kLowClock = 0.93;
// Minimum excess over the others' median of the periods that exhaust a CPU quota, in percent of all
// periods: one of the 20 (of 100 ms by default) in 2 s.
inline constexpr double kMinThrottledPercent = 5;

// Share of lost events of the blamed worker's step thread, or of its GPU, beyond which they may
// hide the cause.
inline constexpr double kMaxLost = 0.005;

// Ratio of step times from which on a worker without collectives is named: such workers may be
// different programs, whose times differ legitimately.
inline constexpr double kSlowWorker = 1.25;

// Minimum share of matched collectives that must lie in steps of the same number, for steps to be
// aligned by number; and of a name's collectives that all workers must have, to be matched.
inline constexpr double kConsistent = 0.9;

// Maximum difference of ranks' step times at which they run in step.
inline constexpr double kEqual = 0.03;

}  // namespace jobscope::analysis

#endif  // ANALYSIS_STATISTICS_THRESHOLDS_H_
