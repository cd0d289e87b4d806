// SPDX-License-Identifier: Apache-2.0
//
// Defines what the XSpaces that are merged into one session share: options, account, state.
#ifndef COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_SESSION_H_
#define COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_SESSION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectors/xspace_import/foreign_xspace_steps.h"
#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/loss_cause.h"
#include "common/xspace/segment/names.h"

namespace jobscope::framework {

// The window in session time. Contains the events that intersect it.
struct ForeignWindow {
  int64_t start_ps = 0;
  int64_t end_ps = INT64_MAX;
};

struct ForeignOptions {
  std::string origin;  // in messages and names: "JAX"
  // A TraceSource (common/xspace/segment/trace_planes.h) that no other segments use.
  uint32_t segment_source = 0;
  // Another source has marked this session's steps: marks in these XSpaces become plain stats.
  bool drop_steps = false;
  // If nothing marks steps, infer them from the outermost recurring call.
  std::optional<StepCalls> step_calls;
  // The session has GPU records of its own: GPU planes in these XSpaces are left out.
  bool drop_gpu_planes = false;
  // Returns the OS thread of a line's id, if known. Default: an id that is a thread of this process
  // is that thread.
  std::function<std::optional<int64_t>(int64_t line_id)> thread_of;
};

// Account of the events of all XSpaces merged so far: attempted = events + outside + lost.
struct ForeignAccount {
  uint64_t attempted = 0;
  uint64_t events = 0;  // in the trace
  uint64_t outside = 0;
  LossesByCause lost_by_cause;
  std::optional<uint64_t> steps;  // whole ones in the trace; absent: no steps here
  std::string inferred_from;      // the call taken for the steps
  // Some of the steps are the program's own marks, which take precedence.
  bool steps_marked = false;
  std::vector<std::string> warnings;
};

// The state from one XSpace to the next.
struct ForeignSession {
  xspace::ItemSink* sink = nullptr;
  xspace::Names* names = nullptr;
  ForeignOptions options;
  ForeignAccount account;
  std::set<std::string> planes_with_stats;  // by name: each XSpace of a session repeats them
  int64_t next_step = 1;                    // number of the next inferred step
};

}  // namespace jobscope::framework

#endif  // COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_SESSION_H_
