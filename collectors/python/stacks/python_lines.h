// SPDX-License-Identifier: Apache-2.0
//
// Writes the lines of Python functions in a trace: one per thread, beside the thread's own line.
#ifndef COLLECTORS_PYTHON_STACKS_PYTHON_LINES_H_
#define COLLECTORS_PYTHON_STACKS_PYTHON_LINES_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "collectors/python/stacks/code_table.h"
#include "common/clock/clock.h"
#include "common/containers/hash_table.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"
#include "common/xspace/segment/stats.h"

namespace jobscope::python {

// What is known of a session's window. `end_ticks` is the planned end, until Stop sets the actual
// one.
struct TraceWindow {
  uint64_t start_ticks = 0;
  uint64_t end_ticks = UINT64_MAX;
  TickMap map;
};

// Describes one function call, or a series of samples, on one thread.
struct FunctionSpan {
  uint64_t begin_ticks = 0;
  uint64_t end_ticks = 0;
  uint32_t code = 0;
  uint32_t depth = 0;
  uint64_t samples = 0;    // 0: not sampled
  bool truncated = false;  // it began before, or ended after, what was observed
};

// Writes Python functions on lines of their own, because they do not always nest with a thread's
// scopes: a generator leaves its frame in the middle of a `with` block. Viewers sort lines by
// number and show only the lower 32 bits, so the number is a thread's id plus a constant above all
// of Linux's ids (4,194,304). Not thread-safe.
class PythonLines {
 public:
  enum class Kind { kSamples, kCalls };

  PythonLines(xspace::ItemSink* sink, xspace::Names* names, const CodeTable* codes, Kind kind);
  PythonLines(const PythonLines&) = delete;
  PythonLines& operator=(const PythonLines&) = delete;

  // Clips a span to the window and adds it; counts a span outside of it.
  void Add(int64_t tid, std::string_view thread_name, const FunctionSpan& span,
           const TraceWindow& window);
  void Flush();

  // After Flush: attempted = events + refused + outside.
  uint64_t attempted() const { return attempted_; }
  uint64_t outside() const { return outside_; }
  uint64_t events() const;
  uint64_t refused() const;  // by the full store

 private:
  struct Line {
    std::string name;
    std::unique_ptr<xspace::SegmentBuilder> builder;
  };
  // Declares the plane and its stats, as far as the store had no space for them before.
  void DeclarePlane();
  xspace::SegmentBuilder& BuilderOf(int64_t tid, std::string_view thread_name);
  uint64_t EventId(uint32_t code);

  xspace::ItemSink* const sink_;
  xspace::Names* const names_;
  const CodeTable* const codes_;
  const Kind kind_;
  xspace::PlaneKey plane_ = 0;
  uint64_t samples_stat_ = 0;
  uint64_t truncated_stat_ = 0;
  HashMap<int64_t, Line> lines_;
  std::vector<uint64_t> event_ids_;  // by code; 0: not requested yet, or refused
  xspace::StatsEncoder stats_{xspace::StatsOf::kEvent};
  uint64_t attempted_ = 0;
  uint64_t outside_ = 0;
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_STACKS_PYTHON_LINES_H_
