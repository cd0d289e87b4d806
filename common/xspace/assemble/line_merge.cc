// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/line_merge.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "common/xspace/segment/event_reader.h"

namespace jobscope::xspace {
namespace {

// A time range in the form in which events are compared.
struct Range {
  Spread begin = 0;
  Spread end = 0;
};

Spread BoundToSpread(int64_t ps) {
  return ps >= kMaxEventPs ? std::numeric_limits<Spread>::max()
                           : ToSpread(static_cast<uint64_t>(std::max<int64_t>(ps, 0)));
}

Range MakeRange(int64_t begin_ps, int64_t end_ps) {
  return {BoundToSpread(begin_ps), BoundToSpread(end_ps)};
}

Slice CutRange(const Segment& segment, Range range, ReadMeter* meter) {
  if (segment.first.start >= range.end || segment.last.start < range.begin) return {};
  if (segment.first.start >= range.begin && segment.last.start < range.end) {
    return {segment.events, segment.count};
  }
  AddRead(meter, segment.events);
  const char* at = segment.events.data();
  const char* const end = at + segment.events.size();
  const char* from = end;
  uint64_t count = 0;
  while (at != end) {
    Spread start;
    const char* const next = ReadStart(at, end, &start);
    if (start >= range.end) break;
    if (start >= range.begin && count++ == 0) from = at;
    at = next;
  }
  if (count == 0) return {};
  return {std::string_view(from, static_cast<size_t>(at - from)), count};
}

// Distance by which a run is prefetched ahead of its current event.
constexpr size_t kPrefetchBytes = 512;

// Iterates over the events of one run in a time range.
struct Cursor {
  const Run* run = nullptr;
  size_t position = 0;         // of the next segment in the run
  const char* at = nullptr;    // the current event
  const char* next = nullptr;  // byte after it
  const char* end = nullptr;   // end of the current segment's events in the range
  uint64_t item = 0;

  // Advances to the next segment that has events in the range; false if there is none.
  bool NextSegment(const std::vector<Segment>& segments, Range range, ReadMeter* meter,
                   Spread* start) {
    while (position < run->size()) {
      const Segment& segment = segments[(*run)[position++]];
      const std::string_view events = CutRange(segment, range, meter).events;
      if (events.empty()) continue;
      AddRead(meter, events);
      at = events.data();
      end = at + events.size();
      item = segment.item;
      next = ReadStart(at, end, start);
      return true;
    }
    return false;
  }
};

// Keeps the start of the current event beside its cursor: it decides nearly all comparisons.
struct Entry {
  Spread start = 0;
  Cursor* cursor = nullptr;
};

// Returns which of two events with equal start goes first.
bool TiePrecedes(const Cursor& a, const Cursor& b) {
  EventView event_a;
  EventView event_b;
  ReadEvent(a.at, a.end, &event_a);
  ReadEvent(b.at, b.end, &event_b);
  if (event_a.key.duration != event_b.key.duration) {
    return event_a.key.duration > event_b.key.duration;
  }
  return a.item > b.item;
}

inline bool Precedes(const Entry& a, const Entry& b) {
  if (__builtin_expect(a.start == b.start, 0)) return TiePrecedes(*a.cursor, *b.cursor);
  return a.start < b.start;
}

// Restores the heap (smallest on top) after its top has changed.
void SiftDown(std::vector<Entry>* entries) {
  Entry* const heap = entries->data();
  const size_t size = entries->size();
  const Entry moved = heap[0];
  size_t hole = 0;
  for (;;) {
    size_t child = 2 * hole + 1;
    if (child >= size) break;
    // Branch-free: which child goes first is unpredictable.
    if (child + 1 < size) child += static_cast<size_t>(Precedes(heap[child + 1], heap[child]));
    if (!Precedes(heap[child], moved)) break;
    heap[hole] = heap[child];
    hole = child;
  }
  heap[hole] = moved;
}

void WriteRun(const std::vector<Segment>& segments, const Run& run, Range range,
              OutputBuffer* out) {
  for (const uint32_t index : run) {
    const std::string_view events = CutRange(segments[index], range, out->meter()).events;
    AddRead(out->meter(), events);
    out->Stable(events);
  }
}

}  // namespace

std::vector<Run> PackRuns(const std::vector<Segment>& segments) {
  std::vector<uint32_t> by_first(segments.size());
  std::iota(by_first.begin(), by_first.end(), 0);
  std::stable_sort(by_first.begin(), by_first.end(),
                   [&](uint32_t a, uint32_t b) { return segments[a].first < segments[b].first; });
  std::vector<Run> runs;
  // Runs by their last event. A segment joins the run with the latest end before it.
  std::multimap<EventKey, size_t> by_last;
  for (const uint32_t index : by_first) {
    const Segment& segment = segments[index];
    auto behind = by_last.lower_bound(segment.first);
    size_t run;
    if (behind == by_last.begin()) {
      run = runs.size();
      runs.emplace_back();
    } else {
      --behind;
      run = behind->second;
      by_last.erase(behind);
    }
    runs[run].push_back(index);
    by_last.emplace(segment.last, run);
  }
  return runs;
}

Slice Cut(const Segment& segment, int64_t begin_ps, int64_t end_ps, ReadMeter* meter) {
  return CutRange(segment, MakeRange(begin_ps, end_ps), meter);
}

void WriteEvents(const std::vector<Segment>& segments, const std::vector<Run>& runs,
                 int64_t begin_ps, int64_t end_ps, OutputBuffer* out) {
  const Range range = MakeRange(begin_ps, end_ps);
  if (runs.size() == 1) return WriteRun(segments, runs.front(), range, out);
  std::vector<Cursor> cursors(runs.size());
  std::vector<Entry> heap;
  for (size_t i = 0; i < runs.size(); ++i) {
    cursors[i].run = &runs[i];
    Entry entry{0, &cursors[i]};
    if (cursors[i].NextSegment(segments, range, out->meter(), &entry.start)) heap.push_back(entry);
  }
  // The standard library keeps the greatest on top.
  std::make_heap(heap.begin(), heap.end(),
                 [](const Entry& a, const Entry& b) { return Precedes(b, a); });
  while (heap.size() > 1 && out->ok()) {
    Entry* const top = heap.data();
    Cursor* const cursor = top->cursor;
    const Entry second =
        heap[heap.size() > 2 ? 1 + static_cast<size_t>(Precedes(heap[2], heap[1])) : 1];
    // Segments interleave in stretches more often than event by event: find the stretch, then copy
    // it at once.
    const char* const from = cursor->at;
    bool in_segment;
    do {
      cursor->at = cursor->next;
      in_segment = cursor->at != cursor->end;
      if (!in_segment) break;
      cursor->next = ReadStart(cursor->at, cursor->end, &top->start);
      __builtin_prefetch(cursor->next + kPrefetchBytes);
    } while (Precedes(*top, second));
    out->StableStretch(std::string_view(from, static_cast<size_t>(cursor->at - from)), cursor->end);
    if (!in_segment && !cursor->NextSegment(segments, range, out->meter(), &top->start)) {
      heap[0] = heap.back();
      heap.pop_back();
    }
    SiftDown(&heap);
  }
  if (heap.empty()) return;
  // One run is left: its events need no comparison.
  Entry last = heap[0];
  do {
    out->Stable(
        std::string_view(last.cursor->at, static_cast<size_t>(last.cursor->end - last.cursor->at)));
  } while (out->ok() && last.cursor->NextSegment(segments, range, out->meter(), &last.start));
}

}  // namespace jobscope::xspace
