// SPDX-License-Identifier: Apache-2.0
//
// Finds which call a kernel of a collective belongs to: the kernel has its launch's number, and the
// launch lies within the call that enqueues it, which carries group and sequence number.
#ifndef ANALYSIS_TRACE_COLLECTIVE_KERNELS_H_
#define ANALYSIS_TRACE_COLLECTIVE_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/trace/host_line.h"

namespace jobscope::analysis {

class CollectiveKernels {
 public:
  // `call`: its span is that of the call.
  void AddCall(CollectiveEvent call) { calls_.push_back(std::move(call)); }
  void AddLaunch(int64_t correlation, int64_t begin_ns) { launches_[correlation] = begin_ns; }
  // `correlation`: -1 if the kernel has none. `index`: that of the kernel among the collectives.
  void AddKernel(int64_t correlation, size_t index) { kernels_.emplace_back(correlation, index); }

  // Gives kernels the group, the sequence number, the bytes and the size of the group of their
  // calls. If the calls name more than one group, other kernels are marked as of_unknown_group;
  // returns the number of those.
  uint64_t Join(std::vector<CollectiveEvent>* collectives);

 private:
  // Returns the innermost call that contains a launch. nullptr: there is none, or calls of several
  // threads do.
  const CollectiveEvent* CallAt(int64_t time_ns) const;

  std::vector<CollectiveEvent> calls_;
  absl::flat_hash_map<int64_t, int64_t> launches_;  // begin, by correlation
  std::vector<std::pair<int64_t, size_t>> kernels_;
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_COLLECTIVE_KERNELS_H_
