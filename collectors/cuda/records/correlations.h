// SPDX-License-Identifier: Apache-2.0
//
// Matches CUDA calls with the GPU work that they launched.
#ifndef COLLECTORS_CUDA_RECORDS_CORRELATIONS_H_
#define COLLECTORS_CUDA_RECORDS_CORRELATIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "collectors/cuda/records/api_calls.h"
#include "collectors/cuda/records/graph_recordings.h"
#include "collectors/cuda/records/timed_activity.h"
#include "common/containers/hash_table.h"

namespace jobscope::cuda {

// Tracks calls and the work they launched by CUPTI's correlation ids, for one session. Belongs to
// the collector's thread.
class Correlations {
 public:
  // Bounds the ids, of about 80 bytes each. The pool of buffers holds the records of some six
  // million calls, which may all be read at once.
  static constexpr size_t kMaxIds = 1'500'000;

  struct Known {
    bool has_work = false;
    bool has_call = false;
    bool has_runtime_call = false;
    bool launches = false;
    // The call makes, changes or launches CUDA graphs; its first work is of a graph.
    bool of_graphs = false;
    bool work_in_graph = false;
    // Some of the work began before the end of the window, or has no timestamps.
    bool work_by_end = false;
    Launched launched;
    uint32_t thread = 0;  // of the call
    uint64_t call_start_ns = 0;
    uint64_t call_ticks = 0;
    uint64_t seen_ticks = 0;
    // Records of the work lost for lack of timestamps: while recording, and at the end.
    uint32_t without_times = 0;
    uint32_t unfinished = 0;
  };

  // `window` must outlive this object.
  explicit Correlations(const Window* window) : window_(*window) {}

  // Notes an activity with a correlation id. At kMaxIds, forgets the older half of the ids before;
  // of launches whose work is still to come only if the other ids are few. The result is valid
  // until the next call.
  Known& NoteWork(const TimedActivity& timed);
  // Ignores calls that never have work.
  void NoteCall(const TimedActivity& timed, const ApiCall& call);
  // Returns null if nothing is known under that id.
  const Known* Find(uint32_t correlation) const;
  // Returns whether no later record can change how the activity is written.
  bool IsSettled(const Activity& activity) const;

  // Returns the number of launches in the window that should have run but whose work has no record
  // yet.
  uint64_t InFlight() const;
  struct AfterTheEnd {
    // Records of work launched after the window, and so outside of it, that were counted as lost
    // before that was known.
    uint64_t without_times = 0;
    uint64_t unfinished = 0;
    // By GPU: launches in the window whose work began after it.
    std::map<uint32_t, uint64_t> began_after;
  };
  // Finds the work of launches after the window. `all_came`: CUPTI has delivered the records of all
  // calls that returned by the end of tracing, so work of an unknown call that had not begun by
  // then is that of a call after the window.
  AfterTheEnd LookAfter(bool all_came) const;

  size_t size() const { return known_.size(); }
  // If there are many ids, forgets those last seen before `oldest_ticks`, except launches whose
  // work is still to come. If there are too many, forgets all last seen before `held_ticks`.
  void ForgetOlderThan(uint64_t oldest_ticks, uint64_t held_ticks);
  // Returns how many launches in the window were forgotten before their work came.
  uint64_t forgotten_launches() const { return forgotten_launches_; }

 private:
  // Returns whether it is a launch in the window that should have run but whose work has no record.
  bool IsMissing(const Known& known) const;
  // Returns what is known under that id; makes it if there is nothing.
  Known& Of(uint32_t correlation);
  // Notes that a call ran something, once both are known.
  void NoteRun(const Known& known);
  void ForgetOlderHalf();
  template <typename Condition>
  void ForgetIf(const Condition& is_old);

  const Window& window_;
  HashMap<uint32_t, Known> known_;
  GraphRecordings recordings_;
  uint64_t forgotten_launches_ = 0;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_CORRELATIONS_H_
