// SPDX-License-Identifier: Apache-2.0
//
// Merges the trace of a framework's own profiler, a serialized XSpace, into a session.
#ifndef COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_H_
#define COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "collectors/xspace_import/foreign_xspace_steps.h"
#include "collectors/xspace_import/foreign_xspace_time.h"
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
  uint32_t segment_source =
      0;  // a TraceSource (common/xspace/segment/trace_planes.h) that no other segments use
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
  bool steps_marked = false;      // some of the steps are the program's own marks, which take
                                  // precedence
  std::vector<std::string> warnings;
};

// Merges XSpaces of frameworks and providers into a session's trace:
// - Lines of `/host:CPU` with a known thread join that thread's line; the others get lines of
//   their own in our `/host:CPU`, under an id that is no thread's.
// - Other planes with lines are joined by name, their lines by id (one plane per name, one line per
//   id: docs/trace_format.md, R1 and R2).
// - Planes without lines, such as `/host:metadata` with the compiled programs, are copied
//   unchanged: their ids have a meaning of their own. Of several with one name, the largest.
// - `Task Environment` only provides the time from which the others count.
//
// Times become session time and are clipped to the window; `names` assigns new ids.
//
// Not thread-safe. Memory: 32 bytes per name of the current XSpace, and the copied planes.
class ForeignXSpace {
 public:
  // Bounds a copied plane: it is one item, which must fit into a message (server/limits.h).
  static constexpr size_t kMaxRawPlaneBytes = size_t{31} << 20;
  // Bounds the sum of copied planes.
  static constexpr size_t kMaxRawBytes = size_t{64} << 20;

  ForeignXSpace(xspace::ItemSink* sink, xspace::Names* names, ForeignOptions options);
  ~ForeignXSpace();
  ForeignXSpace(const ForeignXSpace&) = delete;
  ForeignXSpace& operator=(const ForeignXSpace&) = delete;

  // Changes the option between two Merges; the first mark that was kept stays.
  void set_drop_steps(bool drop) { options_.drop_steps = drop; }

  // Merges one XSpace of the session. INVALID_ARGUMENT: the bytes are not an XSpace, or truncated;
  // what precedes the error is in the trace and counted.
  absl::Status Merge(std::string_view bytes, const ForeignTime& time, const ForeignWindow& window);
  // Appends the copied planes. Call it once, at the end.
  void Finish();

  const ForeignAccount& account() const { return account_; }

 private:
  class PlaneMerge;

  void MergePlanes(std::string_view bytes, const ForeignTime& time, const ForeignWindow& window);
  void Warn(std::string_view text);
  void KeepRaw(std::string_view name, std::string_view bytes);
  void TakeTexts(const std::vector<std::string_view>& texts);

  xspace::ItemSink* const sink_;
  xspace::Names* const names_;
  ForeignOptions options_;
  ForeignAccount account_;
  std::map<std::string, std::string> raw_planes_;  // by name
  size_t raw_bytes_ = 0;                           // size of raw_planes_
  std::set<std::string> planes_with_stats_;
  int64_t next_step_ = 1;  // number of the next inferred step
};

}  // namespace jobscope::framework

#endif  // COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_H_
