// SPDX-License-Identifier: Apache-2.0
//
// Accumulates what the report needs of one thread, from its events in order.
#ifndef ANALYSIS_TRACE_HOST_LINE_H_
#define ANALYSIS_TRACE_HOST_LINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/steps/intervals.h"
#include "analysis/steps/partition.h"
#include "analysis/trace/event_kinds.h"
#include "analysis/trace/name_table.h"

namespace jobscope::analysis {

// A collective, and how other workers' traces know it.
struct CollectiveEvent {
  CollectiveSpan call;
  std::string name;
  std::string group;                // empty: not known
  std::optional<int64_t> sequence;  // within the group
  std::optional<uint64_t> bytes;
  uint32_t group_size = 0;  // 0: not known
};

struct HostEvent {
  uint32_t name = 0;  // index into the worker's NameTable
  EventKind kind = EventKind::kScope;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::optional<int64_t> step;  // a whole step of this number
  std::optional<int64_t> not_running_ns;
};

// A whole step, with the name in which most of its time went.
struct StepEvent {
  StepSpan span;
  uint32_t name = 0;
  uint32_t top_name = 0;
  int64_t top_self_ns = 0;  // 0: nothing but the step is recorded
};

// Times of one thread. Events must come sorted by begin, longest first.
class HostLine {
 public:
  // `names` must live as long as this.
  explicit HostLine(NameTable* names) : names_(names) {}

  // Returns false, and takes nothing, if the event is out of order.
  bool Add(const HostEvent& event);
  // No more events come.
  void Finish();

  // After Finish. `host` of times() leaves out steps, and scopes around them.
  const RecordedTimes& times() const { return times_; }
  const std::vector<StepEvent>& steps() const { return steps_; }
  // Self time by name in the accounts of steps; may be shorter than the table.
  const std::vector<int64_t>& step_self_ns() const { return step_self_ns_; }
  std::vector<CollectiveEvent>& collectives() { return collectives_; }

 private:
  struct Open {
    HostEvent event;
    int64_t children_ns = 0;
    bool has_children = false;
    bool in_wait = false;  // an input wait, a collective, or part of one
    bool is_step = false;
    bool around_step = false;
  };

  void Push(const HostEvent& event);
  void Pop();
  void AddBusy(const Open& open);
  void AddSelf(uint32_t name, int64_t self_ns);
  void EndStep(const Open& open);

  NameTable* names_;
  std::vector<Open> stack_;
  bool in_step_ = false;
  int64_t last_begin_ns_ = INT64_MIN;
  RecordedTimes times_;
  std::vector<StepEvent> steps_;
  std::vector<CollectiveEvent> collectives_;
  std::vector<int64_t> step_self_ns_;
  // Self times since the last step's end: of the account of the step that runs, or comes.
  std::vector<int64_t> account_self_ns_;
  std::vector<uint32_t> account_names_;
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_HOST_LINE_H_
