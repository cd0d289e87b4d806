// SPDX-License-Identifier: Apache-2.0
//
// Folds samples into spans. Does not use Python.
#ifndef COLLECTORS_PYTHON_STACKS_SAMPLE_FOLD_H_
#define COLLECTORS_PYTHON_STACKS_SAMPLE_FOLD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collectors/python/stacks/python_lines.h"
#include "collectors/python/stacks/stacks.h"
#include "common/containers/hash_table.h"

namespace jobscope::python {

// Folds samples of stacks into spans. A function at the same depth, under the same callers, in
// consecutive samples of a thread is one span: from the first of them to the first sample without
// it. So spans nest, and immediately repeated calls become one. Keeps only the latest stack of each
// thread. Not thread-safe.
class SampleFold {
 public:
  SampleFold(PythonLines* lines, const TraceWindow& window) : lines_(lines), window_(window) {}

  // Adds samples requested at `ticks`: a thread that has had the GIL since then is where it was.
  void Add(uint64_t ticks, const StackRound& round);
  // Ends open spans at the window's end, or at the last sample if that was later.
  void Finish(uint64_t end_ticks);

  uint64_t stacks() const { return stacks_; }
  // Stacks of which only the inner frames were read.
  uint64_t cut_stacks() const { return cut_stacks_; }

 private:
  struct OpenSpan {
    uint32_t code = 0;
    uint64_t begin_ticks = 0;
    uint64_t first_sample = 0;
  };
  struct Thread {
    int64_t tid = 0;
    std::string name;
    std::vector<OpenSpan> open;  // outermost first
    uint64_t samples = 0;
    uint64_t last_round = 0;
  };
  // Ends the spans from the one at `depth` on.
  void Close(Thread* thread, size_t depth, uint64_t ticks);

  PythonLines* const lines_;
  TraceWindow window_;
  HashMap<uint64_t, Thread> threads_;  // by ident
  uint64_t last_ticks_ = 0;            // of the last sample
  uint64_t rounds_ = 0;
  uint64_t stacks_ = 0;
  uint64_t cut_stacks_ = 0;
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_STACKS_SAMPLE_FOLD_H_
