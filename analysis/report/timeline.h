// SPDX-License-Identifier: Apache-2.0
//
// Chooses the steps that the report draws, and collects what their workers did in them.
#ifndef ANALYSIS_REPORT_TIMELINE_H_
#define ANALYSIS_REPORT_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/steps/intervals.h"

namespace jobscope::analysis {

struct Report;

// An event, or a run of short ones.
struct ShownBlock {
  Interval span;  // on the worker's clock
  uint32_t row = 0;
  uint32_t what = 0;  // StepClass, or kStepItself
  uint32_t events = 1;
  const std::string* name = nullptr;  // of the digest
};

// A thread or a stream.
struct ShownLine {
  const std::string* name = nullptr;  // of the digest
  uint32_t rows = 0;
  std::vector<ShownBlock> blocks;  // sorted by begin
};

struct ShownWorker {
  size_t worker = 0;  // index into Report::workers
  Interval account;
  std::vector<ShownLine> lines;
  uint64_t left_out = 0;  // events without room
};

// One step, of the workers that are drawn.
struct ShownStep {
  std::vector<std::string> roles;  // "the slowest step"
  int64_t number = 0;
  double ms = 0;             // of its slowest worker
  bool common_clock = true;  // else each worker is drawn from its own start
  std::vector<ShownWorker> workers;
  std::vector<size_t> without;  // workers whose digest keeps other steps
};

// The slowest step of those that at least half as many workers keep as keep any, the median one,
// and that in which the blamed worker costs most; of at most kMaxShownWorkers workers: those that
// the verdict names, and an even choice of the others by own time. Needs the verdict of `report`.
inline constexpr size_t kMaxShownWorkers = 8;
std::vector<ShownStep> ChooseTimeline(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_REPORT_TIMELINE_H_
