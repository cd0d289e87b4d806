// SPDX-License-Identifier: Apache-2.0
//
// Accumulates what the report needs of one stream of a device, from its events in order.
#ifndef ANALYSIS_TRACE_DEVICE_LINE_H_
#define ANALYSIS_TRACE_DEVICE_LINE_H_

#include <cstdint>
#include <vector>

#include "analysis/steps/intervals.h"
#include "analysis/trace/event_kinds.h"
#include "analysis/trace/name_table.h"

namespace jobscope::analysis {

// The computation, or the copies, of all devices.
struct DeviceTimes {
  Intervals spans;    // in any order
  double sum_ns = 0;  // of the events: those that run at the same time count each
};

// Events that contain others (a TPU's `while` contains the operations of its body) have self time,
// and are no computation of their own.
class DeviceLine {
 public:
  // `nests`: events may contain others; else all are leaves, as kernels of a GPU are. `names` must
  // outlive this object.
  DeviceLine(bool nests, NameTable* names) : nests_(nests), names_(names) {}

  void Add(uint32_t name, EventKind kind, const Interval& span);
  // Call it after the last event. Adds computation and copies.
  void Finish(DeviceTimes* compute, DeviceTimes* copies);

 private:
  struct Open {
    uint32_t name = 0;
    EventKind kind = EventKind::kKernel;
    Interval span;
    int64_t children_ns = 0;
    bool is_leaf = true;
  };

  void Pop();

  const bool nests_;
  NameTable* names_;
  std::vector<Open> stack_;
  DeviceTimes compute_;
  DeviceTimes copies_;
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_DEVICE_LINE_H_
