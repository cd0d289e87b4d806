// SPDX-License-Identifier: Apache-2.0
//
// Records ranges and marks as events of the calling thread.
#ifndef COLLECTORS_NVTX_RANGE_EVENTS_H_
#define COLLECTORS_NVTX_RANGE_EVENTS_H_

#include <cstdint>

#include "collectors/nvtx/event.h"

namespace jobscope::nvtx {

// Push and pop: a range of one thread, recorded when it ends. They return the depth, as NVTX does,
// or abi::kNoTracking. A range deeper than ThreadRanges keeps becomes a mark.
int PushRange(const Description& description);
// Recording is off, but some thread has a recorded push open; if it is this one, its depth counts.
__attribute__((noinline, cold)) int PushUnrecorded(uint32_t domain);
__attribute__((noinline)) int PopRange(uint32_t domain);

// Start and end: a range that may end on another thread. Like a scope, one that began while
// recording was on is recorded when it ends. StartRange never returns 0; EndRange ignores ids that
// are not of StartRange.
uint64_t StartRange(const Description& description);
void EndRange(uint64_t id);

void RecordMark(const Description& description);

}  // namespace jobscope::nvtx

#endif  // COLLECTORS_NVTX_RANGE_EVENTS_H_
