// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/line_merge.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "common/xspace/event_reader.h"

namespace jobscope::xspace {
namespace {

// Walks the events of one run that lie in a range of time.
class Cursor {
 public:
  Cursor(const std::vector<Segment>& segments, const Run& run, int64_t begin_ps, int64_t end_ps)
      : segments_(&segments), run_(&run), begin_ps_(begin_ps), end_ps_(end_ps) {
    NextSegment();
  }

  bool done() const { return at_ == end_; }
  const char* at() const { return at_; }    // of the current event
  const char* end() const { return end_; }  // of the current segment

  // True if the current event of this one goes before that of `other`.
  bool Precedes(const Cursor& other) const {
    if (key_.start_ps != other.key_.start_ps) return key_.start_ps < other.key_.start_ps;
    if (key_.duration_ps != other.key_.duration_ps) {
      return key_.duration_ps > other.key_.duration_ps;
    }
    return item_ > other.item_;
  }

  // Goes on within the segment; false at its end.
  bool NextEvent() {
    at_ = next_;
    if (at_ == end_) return false;
    Read();
    return true;
  }

  // Goes on to the next segment that has events in the range; done() if there is none.
  void NextSegment() {
    while (position_ < run_->size()) {
      const Segment& segment = (*segments_)[(*run_)[position_++]];
      const std::string_view events = Cut(segment, begin_ps_, end_ps_).events;
      if (events.empty()) continue;
      at_ = events.data();
      end_ = at_ + events.size();
      item_ = segment.item;
      Read();
      return;
    }
    at_ = end_;
  }

 private:
  void Read() {
    EventView event;
    next_ = ReadEvent(at_, end_, &event);  // the index has checked it: not null
    key_ = {event.start_ps, event.duration_ps};
  }

  const std::vector<Segment>* segments_;
  const Run* run_;
  int64_t begin_ps_;
  int64_t end_ps_;
  size_t position_ = 0;
  const char* at_ = nullptr;
  const char* next_ = nullptr;
  const char* end_ = nullptr;
  EventKey key_;
  uint64_t item_ = 0;
};

// Restores the heap (first to go on top) after the top has changed.
void SiftDown(std::vector<Cursor*>* heap) {
  Cursor* const moved = (*heap)[0];
  size_t hole = 0;
  for (;;) {
    size_t child = 2 * hole + 1;
    if (child >= heap->size()) break;
    if (child + 1 < heap->size() && (*heap)[child + 1]->Precedes(*(*heap)[child])) ++child;
    if (!(*heap)[child]->Precedes(*moved)) break;
    (*heap)[hole] = (*heap)[child];
    hole = child;
  }
  (*heap)[hole] = moved;
}

void WriteRun(const std::vector<Segment>& segments, const Run& run, int64_t begin_ps,
              int64_t end_ps, OutputBuffer* out) {
  for (const uint32_t index : run) out->Stable(Cut(segments[index], begin_ps, end_ps).events);
}

}  // namespace

std::vector<Run> PackRuns(const std::vector<Segment>& segments) {
  std::vector<uint32_t> by_first(segments.size());
  std::iota(by_first.begin(), by_first.end(), 0);
  std::stable_sort(by_first.begin(), by_first.end(),
                   [&](uint32_t a, uint32_t b) { return segments[a].first < segments[b].first; });
  std::vector<Run> runs;
  // Runs by their last event. The run that ends latest, but before the segment, takes it.
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

Slice Cut(const Segment& segment, int64_t begin_ps, int64_t end_ps) {
  if (segment.first.start_ps >= end_ps || segment.last.start_ps < begin_ps) return {};
  if (segment.first.start_ps >= begin_ps && segment.last.start_ps < end_ps) {
    return {segment.events, segment.count};
  }
  const char* at = segment.events.data();
  const char* const end = at + segment.events.size();
  const char* from = end;
  uint64_t count = 0;
  while (at != end) {
    EventView event;
    const char* const next = ReadEvent(at, end, &event);
    if (event.start_ps >= end_ps) break;
    if (event.start_ps >= begin_ps && count++ == 0) from = at;
    at = next;
  }
  if (count == 0) return {};
  return {std::string_view(from, static_cast<size_t>(at - from)), count};
}

void WriteEvents(const std::vector<Segment>& segments, const std::vector<Run>& runs,
                 int64_t begin_ps, int64_t end_ps, OutputBuffer* out) {
  if (runs.size() == 1) return WriteRun(segments, runs.front(), begin_ps, end_ps, out);
  std::vector<Cursor> cursors;
  cursors.reserve(runs.size());
  std::vector<Cursor*> heap;
  for (const Run& run : runs) {
    cursors.emplace_back(segments, run, begin_ps, end_ps);
    if (!cursors.back().done()) heap.push_back(&cursors.back());
  }
  // SiftDown keeps the first to go on top, so the heap is made with the inverse of "less".
  std::make_heap(heap.begin(), heap.end(),
                 [](const Cursor* a, const Cursor* b) { return b->Precedes(*a); });
  while (heap.size() > 1 && out->ok()) {
    Cursor* const top = heap[0];
    const Cursor* second = heap[1];
    if (heap.size() > 2 && heap[2]->Precedes(*second)) second = heap[2];
    // Segments interleave in stretches more often than event by event: find the stretch, then copy
    // it at once.
    const char* const from = top->at();
    bool in_segment;
    do {
      in_segment = top->NextEvent();
    } while (in_segment && top->Precedes(*second));
    out->Stable(std::string_view(from, static_cast<size_t>(top->at() - from)));
    if (!in_segment) {
      top->NextSegment();
      if (top->done()) {
        heap[0] = heap.back();
        heap.pop_back();
      }
    }
    if (!heap.empty()) SiftDown(&heap);
  }
  if (heap.empty()) return;
  // One run is left: no need to look at its events.
  Cursor* const last = heap[0];
  while (!last->done() && out->ok()) {
    out->Stable(std::string_view(last->at(), static_cast<size_t>(last->end() - last->at())));
    last->NextSegment();
  }
}

}  // namespace jobscope::xspace
