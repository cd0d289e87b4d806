// SPDX-License-Identifier: Apache-2.0
//
// Encodes ring records as XPlane events.
#ifndef COLLECTORS_HOST_ENCODING_EVENT_ENCODER_H_
#define COLLECTORS_HOST_ENCODING_EVENT_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectors/host/encoding/async_pairs.h"
#include "collectors/host/encoding/reader.h"
#include "collectors/host/encoding/site_table.h"
#include "collectors/host/encoding/step_begins.h"
#include "collectors/host/encoding/thread_line.h"
#include "collectors/host/encoding/window.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"
#include "common/xspace/segment/stats.h"

namespace jobscope::host {

// A flow record that waits for its enclosing scope to end.
struct PendingFlow {
  uint64_t ticks = 0;
  uint64_t id = 0;
  uint32_t site = 0;
  uint32_t depth = 0;
  bool is_out = false;
};

// What the encoder keeps of one thread (one incarnation) between chunks.
struct ThreadState {
  ThreadLine* line = nullptr;
  std::vector<PendingFlow> flows;  // ordered by time; at most kMaxPendingFlows
  // The newest step that has begun and not ended.
  bool step_open = false;
  jobscope_record step_begin{};
  StepBegins steps;
  uint64_t newest_scope_begin = 0;  // of scopes in the trace except input waits
  // Scopes open at Stop that have not ended since: an ended one is in the ring and must not appear
  // twice.
  std::vector<jobscope_open_scope> open_scopes;
};

// Encodes the records of one session as XPlane events. Each record counts as follows:
//
//   record                       event in the trace                             attempted
//   scope, instant, counter      one                                            1
//   step                         one; whole: `_r`, `step_num`                   1
//                                and a mark of 1 ps, if it is whole and there
//                                is no scope in it: XProf would not find it     1
//   begin of a step              none: part of its step                         0
//   flow                         none: `_pt`/`_p` or `_ct`/`_c` of the scope    0
//                                around it; one of its own if that has ended
//                                unseen, or carries one already                 1
//   async begin, async end       one for the pair                               1
//                                one for a half alone                           1
//   (scope open at Stop)         one, to the window's end                       1
//
// So `events` of a report is the number of XEvents, and a record that only adds to another event is
// not an event. Belongs to the thread that drains.
class EventEncoder {
 public:
  static constexpr size_t kMaxPendingFlows = 64;

  // `window` may change between calls, its zero only before the first event.
  EventEncoder(const Reader* reader, xspace::ItemSink* sink, xspace::Names* names,
               xspace::PlaneKey plane, const Window* window);

  struct Progress {
    size_t records = 0;
    size_t events = 0;
  };
  // Encodes whole events from `records`, up to the first that ended after `hold_ticks` (excluded).
  Progress Encode(ThreadState* thread, const jobscope_record* records, size_t count,
                  uint64_t max_events, uint64_t hold_ticks);

  // Passes the thread's next event to `steps` without encoding it.
  void Follow(StepBegins* steps, const jobscope_record& event);

  // Places waiting open scopes and flows, because the thread or the session has ended.
  void FinishThread(ThreadState* thread);
  xspace::PlaneKey plane() const { return sites_.plane(); }
  // Returns whether there were events whose names the recorder's dictionary had no space for.
  bool has_events_without_a_name() const { return sites_.Has(JOBSCOPE_SITE_WITHOUT_A_NAME); }
  const Window& window() const { return *window_; }

  // Call it after each pass over the threads.
  void PlaceDone() { async_.PlaceDone(); }
  // Call it after all threads, once the window's end is known.
  void Finish() { async_.Finish(); }
  void Flush() { async_.Flush(); }

 private:
  void Scope(ThreadState* thread, const Site& site, const jobscope_record* group, size_t size);
  // `begin` is the step's begin in the trace.
  void Step(ThreadState* thread, const Site& site, const jobscope_record* group, size_t size,
            uint64_t begin);
  void StepMark(ThreadState* thread, const Clipped& step, uint32_t depth);
  void Counter(ThreadState* thread, const Site& site, const jobscope_record& record);
  void Async(ThreadState* thread, const jobscope_record* group, size_t size);
  void Flow(ThreadState* thread, const jobscope_record& record);
  void OpenScope(ThreadState* thread, const jobscope_open_scope& scope);

  // Appends what was clipped to stats_.
  void ClipStats(const Clipped& clipped, uint64_t begin, uint64_t end);
  // Appends to stats_ the flows of a scope of this depth that began at `begin`.
  void AttachFlows(ThreadState* thread, uint32_t depth, uint64_t begin);
  void PlaceFlow(ThreadState* thread, const PendingFlow& flow);
  void ForgetOpenScope(ThreadState* thread, const jobscope_record& record);

  const Window* const window_;
  SiteTable sites_;
  AsyncPairs async_;
  xspace::StatsEncoder stats_{xspace::StatsOf::kEvent};
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_ENCODING_EVENT_ENCODER_H_
