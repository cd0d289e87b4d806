// SPDX-License-Identifier: Apache-2.0
//
// What belongs together: calls into CUDA and the work that they caused.
#ifndef COLLECTORS_CUDA_RECORDS_CORRELATIONS_H_
#define COLLECTORS_CUDA_RECORDS_CORRELATIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "collectors/cuda/records/event_writer.h"

namespace jobscope::cuda {

// By CUPTI's correlation ids, of one session. Belongs to the collector's thread.
class Correlations {
 public:
  struct Known {
    bool has_work = false;
    bool has_call = false;
    bool has_runtime_call = false;
    bool launches = false;
    // Some of the work began before the end of the window, or has no times to tell.
    bool work_by_end = false;
    Launched launched;
    uint64_t call_start_ns = 0;
    uint64_t call_ticks = 0;
    uint64_t seen_ticks = 0;
    // Records of the work that were lost because they had no times: while recording, and at the
    // end.
    uint32_t without_times = 0;
    uint32_t unfinished = 0;
  };

  // Of an activity with a correlation id.
  Known& NoteWork(const TimedActivity& timed, uint64_t window_end_ticks);
  void NoteCall(const TimedActivity& timed, const EventWriter::Call& call);
  // Null: nothing is known under that id.
  const Known* Find(uint32_t correlation) const;
  // Whether nothing that is still to come changes how the activity is written.
  bool IsSettled(const Activity& activity) const;

  // Launches in the window of which no work came, and that were to run.
  uint64_t InFlight(const Window& window) const;
  struct AfterTheEnd {
    // Records of work that was launched after the window, and so lies outside of it; counted as
    // lost before that was known.
    uint64_t without_times = 0;
    uint64_t unfinished = 0;
    // By GPU: launches in the window whose work began after it.
    std::map<uint32_t, uint64_t> began_after;
  };
  AfterTheEnd LookAfter(const Window& window) const;

  size_t size() const { return known_.size(); }
  // Forgets what was last seen before `oldest_ticks`, but for launches whose work is still to come.
  void ForgetOlderThan(uint64_t oldest_ticks);

 private:
  // Whether some thread recorded a graph at that time.
  bool RecordsGraph(uint64_t ticks) const;

  absl::flat_hash_map<uint32_t, Known> known_;
  // Where recordings of graphs began (+1) and ended (-1), by thread and ticks; at most
  // kMaxGraphMarks.
  std::map<uint32_t, std::map<uint64_t, int>> graph_marks_;
  size_t graph_mark_count_ = 0;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_CORRELATIONS_H_
