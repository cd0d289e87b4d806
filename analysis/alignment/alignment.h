// SPDX-License-Identifier: Apache-2.0
//
// Finds which steps of different workers belong together.
#ifndef ANALYSIS_ALIGNMENT_ALIGNMENT_H_
#define ANALYSIS_ALIGNMENT_ALIGNMENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/alignment/matching.h"
#include "analysis/alignment/worker_view.h"

namespace jobscope::analysis {

struct Alignment {
  enum class By { kNone, kNumber, kCollectives } by = By::kNone;
  // Workers that have steps; the others take no part.
  std::vector<size_t> workers;
  // Workers with steps that share no collective with those above.
  std::vector<size_t> apart;
  // Per entry of `workers`: the index of its step, for each common step.
  std::vector<std::vector<size_t>> steps;
  std::vector<int64_t> numbers;  // of the common steps, in the numbering of the first of `workers`
  std::vector<Match> matches;
  // Workers wait for each other: their collectives are matched, or their steps as a whole.
  bool synchronous = false;
  // Collectives could not be matched, but steps of one number take equally long everywhere: the
  // blocked time of a step is compared as if it were one collective.
  bool whole_steps = false;
  std::vector<std::string> warnings;

  size_t common() const { return numbers.size(); }
};

// Aligns workers that wait for each other; if there are none, all. Collectives are matched by
// process group and sequence number; those that lack these, by name and ordinal within steps that
// belong together. Steps are aligned by number, unless matched collectives contradict this or align
// more where few numbers are common, or the times of collectives without sequence numbers
// contradict it: then the collectives decide.
Alignment Align(const std::vector<WorkerView>& views);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_ALIGNMENT_ALIGNMENT_H_
