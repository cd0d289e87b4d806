// SPDX-License-Identifier: Apache-2.0
//
// The ranges that a thread has pushed and not popped, domain by domain.
//
// While nothing is recorded, nobody keeps count: push and pop load one word and return. That is
// right as long as a pop can tell whether the push that it belongs to was recorded. So a thread
// that has recorded a push which is still open keeps *track*: it counts every push and pop,
// recorded or not, until it has no push open that was made since. A pop whose push was made before,
// while nobody kept count, finds its domain's stack empty and does nothing.
#ifndef COLLECTORS_NVTX_RANGES_H_
#define COLLECTORS_NVTX_RANGES_H_

#include <atomic>
#include <cstdint>

#include "collectors/nvtx/event.h"
#include "collectors/nvtx/names.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope::nvtx {

// Ranges that one thread may have open at once and be recorded, all domains together. A range
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

// Threads that keep track. Read by every call that finds recording off.
extern std::atomic<uint32_t> g_tracking;

// Memory of one thread: mapped when it first pushes while recording is on, pages touched as deep as
// it goes, unmapped when it ends. Only its thread touches it.
class ThreadRanges {
 public:
  // Null where the thread has none, or ends just now.
  static ThreadRanges* Existing();
  // Null: no memory, or the thread ends just now.
  static ThreadRanges* Get();

  // The new innermost range of the domain, with all but its depth, domain and place to be filled
  // in; null where kMaxOpenRanges are open: then only its depth is kept.
  Range* Push(uint32_t domain, uint32_t* depth);
  // The innermost range of the domain, which the caller may read until the next push; null where
  // it was not kept. False: there is none open.
  bool Pop(uint32_t domain, Range** range, uint32_t* depth);

  // Whether it has a push open that it knows of.
  bool empty() const { return used_ == 0 && excess_total_ == 0; }
  // It is empty, and recording is off: calls need not look here any more.
  void StopTracking();

  // Ends what is open: the thread is about to end.
  void EndAll();

 private:
  void Track();

  bool tracking_;
  uint32_t used_;              // of ranges_; those that are not open are inner to none
  uint32_t excess_total_;      // pushes that are open and had no room, by domain in excess_
  uint32_t top_[kMaxDomains];  // index + 1 of the innermost range
  uint32_t excess_[kMaxDomains];
  Range ranges_[kMaxOpenRanges];
};

// Once, before the first push. False: threads' memory could not be given back, so there is to be
// no tracking.
bool PrepareThreads();

}  // namespace jobscope::nvtx

#endif  // COLLECTORS_NVTX_RANGES_H_
