// SPDX-License-Identifier: Apache-2.0
//
// Accumulates what the report needs of one thread, from its events in order.
#ifndef ANALYSIS_TRACE_HOST_LINE_H_
#define ANALYSIS_TRACE_HOST_LINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/steps/intervals.h"
#include "analysis/steps/partition.h"
#include "analysis/trace/event_kinds.h"
#include "analysis/trace/name_table.h"

namespace jobscope::analysis {

// A collective, with what identifies it in other workers' traces.
struct CollectiveEvent {
  CollectiveSpan call;
  std::string name;
  std::string group;                // empty: unknown
  std::optional<int64_t> sequence;  // within the group
  std::optional<uint64_t> bytes;
  uint32_t group_size = 0;  // 0: unknown
  // The worker uses several groups, and which one this is of is not known.
  bool of_unknown_group = false;
};

struct HostEvent {
  uint32_t name = 0;  // index into the worker's NameTable
  EventKind kind = EventKind::kScope;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::optional<int64_t> step;  // number of a whole step
  std::optional<int64_t> not_running_ns;
  std::optional<int64_t> cpu_ns;
};

// A whole step, with the name that took most of its time.
struct StepEvent {
  StepSpan span;
  uint32_t name = 0;
  uint32_t top_name = 0;
  int64_t top_self_ns = 0;  // 0: only the step itself is recorded
};

// By index into the NameTable. Holds the names that occur: a worker may have thousands of threads,
// and thousands of names.
using TimeByName = absl::flat_hash_map<uint32_t, int64_t>;

// Accumulates the times of one thread. Events must be sorted by begin, longest first.
class HostLine {
 public:
  // `names` must outlive this object. `is_helper`: the step thread waits while this one works.
  explicit HostLine(NameTable* names, bool is_helper = false)
      : names_(names), is_helper_(is_helper) {}
  bool is_helper() const { return is_helper_; }

  // Adds an event. Returns false, without any effect, if it is out of order.
  bool Add(const HostEvent& event);
  // Call it after the last event.
  void Finish();

  // Valid after Finish. `host` of times() excludes steps, and scopes around them.
  const RecordedTimes& times() const { return times_; }
  const std::vector<StepEvent>& steps() const { return steps_; }
  // Returns self time by name in the accounts of steps; that of names inside a compilation is the
  // compilation's.
  const TimeByName& step_self_ns() const { return step_self_ns_; }
  // Likewise: of an input wait its whole time, of a name inside one its self time.
  const TimeByName& input_ns() const { return input_ns_; }
  // Returns all self time by name of a helper without steps.
  const TimeByName& self_ns() const { return self_ns_; }
  std::vector<CollectiveEvent>& collectives() { return collectives_; }

 private:
  struct Open {
    HostEvent event;
    uint32_t owner = 0;      // name to which its self time in steps is added
    bool has_owner = false;  // a compilation, or inside one
    // The scope that names a compilation in it: itself, or that around it if it is a Python frame.
    std::optional<uint32_t> function;
    int64_t children_ns = 0;
    bool has_children = false;
    bool in_wait = false;   // an input wait, a collective, or part of one
    bool in_input = false;  // inside an input wait
    bool is_step = false;
    bool around_step = false;
  };

  // Ends open events that end within `step` where it begins. An inferred step runs from one hook to
  // the next, and scopes around a hook straddle its border: cut at their ends instead, the step
  // would have no length.
  void CutAround(const HostEvent& step);
  void Push(const HostEvent& event);
  void Pop();
  uint32_t CompilationName(const HostEvent& event, uint32_t function);
  void AddBusy(const Open& open);
  void AddInput(const Open& open, int64_t self_ns);
  void EndStep(const Open& open);

  NameTable* names_;
  const bool is_helper_;
  std::vector<Open> stack_;
  bool in_step_ = false;
  int64_t last_begin_ns_ = INT64_MIN;
  RecordedTimes times_;
  std::vector<StepEvent> steps_;
  std::vector<CollectiveEvent> collectives_;
  TimeByName step_self_ns_;
  TimeByName input_ns_;
  TimeByName self_ns_;
  // Since the last step's end: for the account of the current or next step.
  TimeByName account_self_ns_;
  TimeByName account_input_ns_;
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_HOST_LINE_H_
