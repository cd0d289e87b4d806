// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvtx/ranges.h"

#include <pthread.h>
#include <sys/mman.h>

#include "collectors/nvtx/recorder.h"

namespace jobscope::nvtx {
namespace {

pthread_key_t g_key;
pthread_once_t g_once = PTHREAD_ONCE_INIT;
bool g_has_key = false;

// Not in static TLS, which may be exhausted when a library is loaded late.
thread_local ThreadRanges* t_ranges = nullptr;
// Set once the thread's memory has been freed: later destructors of the thread may still call.
thread_local bool t_over = false;

void OnThreadEnd(void* memory) {
  auto* const ranges = static_cast<ThreadRanges*>(memory);
  t_ranges = nullptr;
  t_over = true;
  ranges->EndAll();
  munmap(memory, sizeof(ThreadRanges));
}

void MakeKey() { g_has_key = pthread_key_create(&g_key, &OnThreadEnd) == 0; }

}  // namespace

std::atomic<uint32_t> g_tracking{0};

bool PrepareThreads() {
  pthread_once(&g_once, &MakeKey);
  return g_has_key;
}

ThreadRanges* ThreadRanges::Existing() { return t_ranges; }

ThreadRanges* ThreadRanges::Get() {
  if (t_ranges != nullptr) return t_ranges;
  if (t_over) return nullptr;
  // Not malloc: an allocator may use NVTX, too.
  void* const memory = mmap(nullptr, sizeof(ThreadRanges), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (pthread_setspecific(g_key, memory) != 0) {
    munmap(memory, sizeof(ThreadRanges));
    return nullptr;
  }
  t_ranges = static_cast<ThreadRanges*>(memory);  // a new object is all zeros
  return t_ranges;
}

void ThreadRanges::Track() {
  if (tracking_) return;
  tracking_ = true;
  g_tracking.fetch_add(1, std::memory_order_relaxed);
}

void ThreadRanges::StopTracking() {
  if (!tracking_) return;
  tracking_ = false;
  g_tracking.fetch_sub(1, std::memory_order_relaxed);
}

Range* ThreadRanges::Push(uint32_t domain, uint32_t* depth) {
  Track();
  const uint32_t top = top_[domain];
  *depth = (top == 0 ? 0 : ranges_[top - 1].depth + 1) + excess_[domain];
  // While a domain has pushes without an entry, those are its innermost ones: the order is kept.
  if (used_ == kMaxOpenRanges || excess_[domain] != 0) {
    ++excess_[domain];
    ++excess_total_;
    return nullptr;
  }
  Range& range = ranges_[used_++];
  range.domain = domain;
  range.below = top;
  range.depth = *depth;
  range.open = true;
  range.arg_count = 0;
  range.token = {};
  top_[domain] = used_;
  return &range;
}

bool ThreadRanges::Pop(uint32_t domain, Range** range, uint32_t* depth) {
  *range = nullptr;
  const uint32_t top = top_[domain];
  if (excess_[domain] != 0) {
    --excess_total_;
    --excess_[domain];
    *depth = (top == 0 ? 0 : ranges_[top - 1].depth + 1) + excess_[domain];
    return true;
  }
  if (top == 0) return false;
  Range& innermost = ranges_[top - 1];
  *range = &innermost;
  *depth = innermost.depth;
  top_[domain] = innermost.below;
  innermost.open = false;
  // Domains need not nest in each other: entries popped under an inner range of another domain are
  // freed together with it.
  while (used_ > 0 && !ranges_[used_ - 1].open) --used_;
  return true;
}

void ThreadRanges::EndAll() {
  for (; used_ > 0; --used_) {
    const Range& range = ranges_[used_ - 1];
    if (range.open && range.token.begin_ticks != 0) {
      Writer()->end_args(range.site, range.token, range.args, range.arg_count);
    }
  }
  StopTracking();
}

}  // namespace jobscope::nvtx
