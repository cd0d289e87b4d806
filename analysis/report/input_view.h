// SPDX-License-Identifier: Apache-2.0
//
// Computes how long workers wait for their input, and in which calls.
#ifndef ANALYSIS_REPORT_INPUT_VIEW_H_
#define ANALYSIS_REPORT_INPUT_VIEW_H_

#include <cstddef>
#include <string>
#include <vector>

namespace jobscope::analysis {

struct Report;

struct InputWorker {
  size_t worker = 0;  // index into Report::workers
  double ms = 0;      // per step
  double share = 0;   // of the step
};

// An input wait, which counts as a whole, or a scope inside one, which counts by its self time.
struct InputName {
  std::string name;
  std::string source;  // file:line; empty: not known
  bool is_wait = false;
  double ms = 0;  // per step; mean over the workers that record input
  size_t workers = 0;
  double most_ms = 0;
  size_t most_in = 0;  // index into Report::workers
};

struct InputView {
  std::vector<InputWorker> workers;  // that record input, largest share first
  std::vector<InputName> names;      // waits first, then by time; at most 50
  // Further ones; without those that digests left out (Report::operators_left_out).
  size_t names_left_out = 0;
};

InputView InputOf(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_REPORT_INPUT_VIEW_H_
