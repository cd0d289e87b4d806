// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvtx/range_events.h"

#include <atomic>
#include <cstddef>
#include <cstring>

#include "collectors/nvtx/abi.h"
#include "collectors/nvtx/ranges.h"
#include "collectors/nvtx/recorder.h"

namespace jobscope::nvtx {
namespace {

// Ids of ranges that may start and end on different threads: bit 63, which the recorder's ids never
// have, then the site and a number. The end receives only the id.
constexpr uint64_t kRangeId = uint64_t{1} << 63;
constexpr int kSiteShift = 43;
constexpr uint64_t kNumberMask = (uint64_t{1} << kSiteShift) - 1;
constexpr uint32_t kMaxSiteId = (1u << (63 - kSiteShift)) - 1;
std::atomic<uint64_t> g_next_range{0};

void WriteAsync(uint32_t kind, uint64_t id, Event* event) {
  event->args[0] = {};
  event->args[0].type = JOBSCOPE_ARG_UINT64;
  event->args[0].value.uint64_value = id;
  Writer()->event(event->site, kind, event->args, event->arg_count);
}

}  // namespace

int PushRange(const Description& description) {
  ThreadRanges* const ranges = ThreadRanges::Get();
  if (ranges == nullptr) return abi::kNoTracking;
  uint32_t depth = 0;
  Range* const range = ranges->Push(description.domain, &depth);
  if (range == nullptr) {
    RecordMark(description);
    return static_cast<int>(depth);
  }
  Event event;
  MakeEvent(EventKind::kRange, description, &event);
  range->site = event.site;
  range->arg_count = event.arg_count;
  for (uint32_t i = 0; i < event.arg_count; ++i) {
    range->args[i] = event.args[i];
    if (event.args[i].type != JOBSCOPE_ARG_STRING) continue;
    // At most one string: the message.
    const size_t kept =
        event.args[i].length < sizeof(range->text) ? event.args[i].length : sizeof(range->text);
    memcpy(range->text, event.args[i].value.text, kept);
    range->args[i].value.text = range->text;
  }
  // Last, so that the lookup of the name is not part of the range.
  range->token = Writer()->begin(event.site);
  return static_cast<int>(depth);
}

int PushUnrecorded(uint32_t domain) {
  ThreadRanges* const ranges = ThreadRanges::Existing();
  if (ranges == nullptr) return abi::kNoTracking;
  if (ranges->empty()) {
    ranges->StopTracking();
    return abi::kNoTracking;
  }
  uint32_t depth = 0;
  ranges->Push(domain, &depth);
  return static_cast<int>(depth);
}

int PopRange(uint32_t domain) {
  ThreadRanges* const ranges = ThreadRanges::Existing();
  if (ranges == nullptr) return abi::kNoTracking;
  Range* range = nullptr;
  uint32_t depth = 0;
  if (!ranges->Pop(domain, &range, &depth)) {
    if (ranges->empty() && !Recording()) ranges->StopTracking();
    return abi::kNoTracking;
  }
  if (range != nullptr && range->token.begin_ticks != 0) {
    if (range->arg_count == 0) {
      Writer()->end(range->site, range->token);
    } else {
      Writer()->end_args(range->site, range->token, range->args, range->arg_count);
    }
  }
  return static_cast<int>(depth);
}

uint64_t StartRange(const Description& description) {
  Event event;
  MakeEvent(EventKind::kStartEnd, description, &event);
  const uint64_t id = kRangeId | uint64_t{event.site & kMaxSiteId} << kSiteShift |
                      (g_next_range.fetch_add(1, std::memory_order_relaxed) & kNumberMask);
  WriteAsync(JOBSCOPE_KIND_ASYNC_BEGIN, id, &event);
  return id;
}

void EndRange(uint64_t id) {
  if ((id & kRangeId) == 0) return;
  Event event;
  event.site = static_cast<uint32_t>(id >> kSiteShift) & kMaxSiteId;
  event.arg_count = 1;
  WriteAsync(JOBSCOPE_KIND_ASYNC_END, id, &event);
}

void RecordMark(const Description& description) {
  Event event;
  MakeEvent(EventKind::kMark, description, &event);
  Writer()->event(event.site, JOBSCOPE_KIND_INSTANT, event.args, event.arg_count);
}

}  // namespace jobscope::nvtx
