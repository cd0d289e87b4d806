// SPDX-License-Identifier: Apache-2.0
//
// Tracks the ranges that a thread has pushed and not popped, by domain.
//
// While nothing is recorded, nothing is counted: push and pop load one word and return. This is
// correct as long as a pop can see whether its push was recorded. So a thread with an open
// recorded push *tracks*: it counts every push and pop, recorded or not, until no push made since
// then is open. A pop whose push was made earlier, uncounted, finds its domain's stack empty and
// does nothing.
#ifndef COLLECTORS_NVTX_RANGES_H_
#define COLLECTORS_NVTX_RANGES_H_

#include <atomic>
#include <cstdint>

#include "collectors/nvtx/event.h"
#include "collectors/nvtx/names.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope::nvtx {

// Maximum number of recorded ranges that one thread may have open, all domains together. A range
// nested deeper is recorded as a point in time, at its begin.
inline constexpr uint32_t kMaxOpenRanges = 1024;

struct Range {
  jobscope_token token;  // begin_ticks 0: not recorded
  uint32_t site;
  uint32_t domain;
  uint32_t below;  // index + 1 of the next outer range of the same domain; 0: none
  uint32_t depth;  // in its domain
  uint32_t arg_count;
  bool open;
  jobscope_arg args[JOBSCOPE_MAX_KEYS];
  char text[JOBSCOPE_MAX_STRING];  // of a string among the arguments
};

// Number of threads that keep track. Read by every call that finds recording off.
extern std::atomic<uint32_t> g_tracking;

// Tracks the open ranges of one thread. Mapped when the thread first pushes while recording is on,
// pages touched only as deep as it nests, unmapped when the thread ends. Used only by its thread.
class ThreadRanges {
 public:
  // Returns null if the thread has none or is ending.
  static ThreadRanges* Existing();
  // Returns null if there is no memory or the thread is ending.
  static ThreadRanges* Get();

  // Adds the innermost range of the domain; the caller fills all but its depth, domain and link.
  // Null if kMaxOpenRanges are open: then only its depth is kept.
  Range* Push(uint32_t domain, uint32_t* depth);
  // Removes the innermost range of the domain. The caller may read it until the next push; null if
  // only its depth was kept. False: no range is open.
  bool Pop(uint32_t domain, Range** range, uint32_t* depth);

  // Returns whether this thread has no open push that it knows of.
  bool empty() const { return used_ == 0 && excess_total_ == 0; }
  // Makes calls skip this thread: it has no open range, and recording is off.
  void StopTracking();

  // Ends the open ranges, because the thread is ending.
  void EndAll();

 private:
  void Track();

  bool tracking_;
  uint32_t used_;              // used entries of ranges_; a closed one encloses no open one
  uint32_t excess_total_;      // open pushes without an entry; by domain in excess_
  uint32_t top_[kMaxDomains];  // index + 1 of the innermost range
  uint32_t excess_[kMaxDomains];
  Range ranges_[kMaxOpenRanges];
};

// Prepares the cleanup of threads. Call it once before the first push. False: threads' memory could
// not be freed, so tracking must stay off.
bool PrepareThreads();

}  // namespace jobscope::nvtx

#endif  // COLLECTORS_NVTX_RANGES_H_
