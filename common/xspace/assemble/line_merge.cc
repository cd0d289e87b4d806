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

// Iterates over the events of one run in a time range. Reads one event ahead: the next start is
// known as soon as the current event has been written, so that comparisons do not wait for varints.
struct Cursor {
  const Run* run = nullptr;
  size_t position = 0;               // of the next segment in the run
  const char* at = nullptr;          // the current event
  const char* next = nullptr;        // byte after it
  const char* after_next = nullptr;  // byte after the event at `next`, unless that is `end`
  const char* end = nullptr;         // end of the current segment's events in the range
  Spread start = 0;                  // of the current event
  Spread next_start = 0;             // of the event at `next`, unless that is `end`

  // Advances to the next event of the segment; false if there is none.
  bool Next() {
    at = next;
    if (__builtin_expect(at == end, 0)) return false;
    start = next_start;
    next = after_next;
    ReadAhead();
    return true;
  }

  // Advances to the next segment that has events in the range; false if there is none.
  [[gnu::noinline]] bool NextSegment(const std::vector<Segment>& segments, Range range,
                                     ReadMeter* meter) {
    while (position < run->size()) {
      const std::string_view events = CutRange(segments[(*run)[position++]], range, meter).events;
      if (events.empty()) continue;
      AddRead(meter, events);
      at = events.data();
      end = at + events.size();
      next = ReadStart(at, end, &start);
      ReadAhead();
      return true;
    }
    return false;
  }

 private:
  void ReadAhead() {
    if (__builtin_expect(next == end, 0)) return;
    after_next = ReadStart(next, end, &next_start);
    __builtin_prefetch(after_next + kPrefetchBytes);
  }
};

// Orders the current events of all runs: a tournament tree whose nodes hold the losers of their
// matches. Replacing the winner repeats the matches between its leaf and the root, and no other.
class LoserTree {
 public:
  // A run's current event. The start decides nearly all matches.
  struct Entry {
    Spread start = 0;
    size_t run = 0;
  };

  // Takes the place of the start of a run that has no more events: later than all starts, and no
  // two are equal.
  static Spread Exhausted(size_t run) { return (Spread{1} << 63) + run; }

  // Takes the starts of the cursors. Both arguments must outlive this.
  LoserTree(const std::vector<Segment>& segments, const std::vector<Cursor>& cursors)
      : segments_(segments), cursors_(cursors) {
    // With a power of two of leaves, all have equally many matches: no branch to mispredict.
    while (leaves_ < cursors.size()) leaves_ *= 2;
    std::vector<Entry> winners(2 * leaves_);
    for (size_t run = 0; run < leaves_; ++run) {
      winners[leaves_ + run] = {run < cursors.size() ? cursors[run].start : Exhausted(run), run};
    }
    losers_.resize(leaves_);
    for (size_t node = leaves_ - 1; node > 0; --node) {
      winners[node] = winners[2 * node];
      losers_[node] = winners[2 * node + 1];
      Match(&losers_[node], &winners[node]);
    }
    first_ = winners[1];
  }

  // Returns the entry that goes first.
  Entry first() const { return first_; }

  // Returns the entry that goes first of all but those of `run`, which has just won.
  Entry Second(size_t run) const {
    Entry second{Exhausted(leaves_), 0};
    for (size_t node = (leaves_ + run) / 2; node > 0; node /= 2) {
      if (Precedes(losers_[node], second)) second = losers_[node];
    }
    return second;
  }

  // Returns the entry that goes first once the run that won has advanced to `entry`.
  Entry Replace(Entry entry) {
    for (size_t node = (leaves_ + entry.run) / 2; node > 0; node /= 2) {
      Match(&losers_[node], &entry);
    }
    return entry;
  }

  bool Precedes(Entry a, Entry b) const {
    return a.start != b.start ? a.start < b.start : TiePrecedes(a.run, b.run);
  }

 private:
  // Puts the entry that goes first into `winner`, the other one into `loser`. By a branch: where
  // runs take turns, processors foresee it, and read on without waiting for the comparison.
  void Match(Entry* loser, Entry* winner) const {
    const Spread a = loser->start;
    const Spread b = winner->start;
    if (__builtin_expect(a == b, 0)) {
      if (TiePrecedes(loser->run, winner->run)) std::swap(loser->run, winner->run);
      return;
    }
    if (a < b) std::swap(*loser, *winner);
  }

  // Returns which of two events with equal start goes first.
  [[gnu::noinline, gnu::cold]] bool TiePrecedes(size_t a, size_t b) const {
    EventView event_a;
    EventView event_b;
    ReadEvent(cursors_[a].at, cursors_[a].end, &event_a);
    ReadEvent(cursors_[b].at, cursors_[b].end, &event_b);
    if (event_a.key.duration != event_b.key.duration) {
      return event_a.key.duration > event_b.key.duration;
    }
    return Item(cursors_[a]) > Item(cursors_[b]);
  }

  uint64_t Item(const Cursor& cursor) const {
    return segments_[(*cursor.run)[cursor.position - 1]].item;
  }

  const std::vector<Segment>& segments_;
  const std::vector<Cursor>& cursors_;
  size_t leaves_ = 1;
  std::vector<Entry> losers_;  // [node]: 1 is the root, 2 * node and 2 * node + 1 lie below a node
  Entry first_;                // as constructed
};

// After so many events in a row from one run, the merge looks for a stretch.
constexpr int kStretchEvents = 4;

// Advances to the first event that does not precede those of all other runs; false if that lies in
// another segment.
[[gnu::noinline]] bool SkipStretch(const LoserTree& tree, size_t run, Cursor* cursor) {
  const LoserTree::Entry second = tree.Second(run);
  while (tree.Precedes({cursor->start, run}, second)) {
    if (!cursor->Next()) return false;
  }
  return true;
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
  size_t unfinished = 0;
  for (size_t run = 0; run < runs.size(); ++run) {
    cursors[run].run = &runs[run];
    if (cursors[run].NextSegment(segments, range, out->meter())) {
      ++unfinished;
    } else {
      cursors[run].start = LoserTree::Exhausted(run);
    }
  }
  LoserTree tree(segments, cursors);
  LoserTree::Entry first = tree.first();
  int in_a_row = 0;
  while (unfinished > 1 && out->ok()) {
    const size_t run = first.run;
    Cursor* const cursor = &cursors[run];
    const char* const from = cursor->at;
    bool in_segment = cursor->Next();
    Spread start = cursor->start;
    if (__builtin_expect(in_a_row >= kStretchEvents, 0)) {
      in_segment = in_segment && SkipStretch(tree, run, cursor);
      start = cursor->start;
    }
    out->StableStretch(std::string_view(from, static_cast<size_t>(cursor->at - from)), cursor->end);
    if (__builtin_expect(!in_segment, 0)) {
      if (!cursor->NextSegment(segments, range, out->meter())) {
        cursor->start = LoserTree::Exhausted(run);
        --unfinished;
      }
      start = cursor->start;
    }
    first = tree.Replace({start, run});
    in_a_row = first.run == run ? in_a_row + 1 : 0;
  }
  if (unfinished == 0) return;
  // One run is left: its events need no comparison.
  Cursor* const last = &cursors[first.run];
  do {
    out->Stable(std::string_view(last->at, static_cast<size_t>(last->end - last->at)));
  } while (out->ok() && last->NextSegment(segments, range, out->meter()));
}

}  // namespace jobscope::xspace
