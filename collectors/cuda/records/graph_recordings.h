// SPDX-License-Identifier: Apache-2.0
//
// Finds the times at which a program records CUDA graphs.
#ifndef COLLECTORS_CUDA_RECORDS_GRAPH_RECORDINGS_H_
#define COLLECTORS_CUDA_RECORDS_GRAPH_RECORDINGS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace jobscope::cuda {

// Matches the calls that begin recordings with those that end them. Records name the thread of a
// call and not its stream: an end belongs to the last begin of its own thread or, if that has none
// (in CUDA's relaxed mode any thread may end a recording), of another one. The record of an end may
// be lost, or the end lie after the capture: a recording without one also ends when its thread
// launches something that runs, because what goes into a graph does not run. Belongs to the
// collector's thread.
class GraphRecordings {
 public:
  // Bounds the calls; a process records each of its graphs once. Ignores further ones: launches
  // into their graphs count as unfinished.
  static constexpr size_t kMaxCalls = 10'000;

  // Notes a call, in any order.
  void Note(uint32_t thread, uint64_t ticks, bool begins);
  // Notes a call that caused work on a GPU, after the calls of its thread that began before it:
  // otherwise it is ignored. Keeps at most one per recording.
  void NoteRun(uint32_t thread, uint64_t ticks);
  // Returns whether any thread was recording at that time. A recording without an end lasts until
  // the next one on its thread, or its thread's next call with work; one without a begin has lasted
  // since before the first record.
  bool At(uint64_t ticks) const;

 private:
  enum class Call { kBegin, kEnd, kRun };
  using Calls = std::map<uint64_t, Call>;  // by ticks

  void Match() const;

  std::map<uint32_t, Calls> calls_;  // by thread
  size_t count_ = 0;
  // Made by Match from the calls, when it is needed: begins and ends, sorted and disjoint.
  mutable std::vector<std::pair<uint64_t, uint64_t>> times_;
  mutable bool matched_ = true;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_GRAPH_RECORDINGS_H_
