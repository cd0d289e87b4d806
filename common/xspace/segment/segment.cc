// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/segment.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/xspace/segment/event_reader.h"
#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/wire.h"

namespace jobscope::xspace {
namespace {

// Space for the fields before the events: six varints and the length, each with its tag.
constexpr size_t kHeaderRoom = 7 * (1 + kMaxVarintBytes);
// Bounds the stats of one event: more than any store takes.
constexpr size_t kMaxStatsBytes = size_t{1} << 30;
// Size of an event with one integer. Copying this fixed size is faster than computing how much is
// needed.
constexpr size_t kShortBytes = 32;
// Size of an event without its stats: tag, length and three fields, plus what is written beyond
// them.
constexpr size_t kEventRoom = 1 + kMaxVarintBytes + 3 * (1 + kMaxVarintBytes) + kShortBytes;

uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}

char* WriteVarintField(char* out, uint32_t field, uint64_t value) {
  *out++ = VarintTag(field);
  return WriteVarint(out, value);
}

// Grows by doubling: a line that fills its segments soon reaches the full size, and a process may
// have thousands of lines with one event.
void GrowTo(std::vector<char>* buffer, size_t bytes) {
  if (buffer->size() >= bytes) return;
  constexpr size_t kFull = SegmentBuilder::kMaxBytes + kEventRoom;
  buffer->resize(std::max(bytes, std::min(2 * buffer->size(), kFull)));
}

// Returns the byte after the copy. Most stats have 4 to 16 bytes: two overlapping moves, no call.
char* CopyStats(std::string_view stats, char* out) {
  const char* const from = stats.data();
  const size_t size = stats.size();
  if (size >= 8 && size <= 16) {
    std::memcpy(out, from, 8);
    std::memcpy(out + size - 8, from + size - 8, 8);
  } else if (size >= 4 && size < 8) {
    std::memcpy(out, from, 4);
    std::memcpy(out + size - 4, from + size - 4, 4);
  } else if (size > 0) {
    std::memcpy(out, from, size);
  }
  return out + size;
}

}  // namespace

SegmentBuilder::SegmentBuilder(ItemSink* sink, uint32_t source, LineDeclaration declare)
    : sink_(sink), source_(source), declare_(std::move(declare)) {}

SegmentBuilder::SegmentBuilder(ItemSink* sink, PlaneKey plane, int64_t line, uint32_t source)
    : sink_(sink), source_(source), key_{plane, line} {}

void SegmentBuilder::Declare() {
  if (!declare_) return;
  const LineKey key = declare_();
  // A line that has been declared keeps its key.
  if (key.line != 0) key_ = key;
}

// Order within a segment: by start, longest first, outermost first; if all are equal, the one that
// completed last first, because a parent completes after its children.
inline bool SegmentBuilder::Precedes(const Record& a, const Record& b) {
  if (a.start_ps != b.start_ps) return a.start_ps < b.start_ps;
  if (a.duration_ps != b.duration_ps) return a.duration_ps > b.duration_ps;
  if (a.depth != b.depth) return a.depth < b.depth;
  return &a > &b;
}

void SegmentBuilder::Add(const SegmentEvent& event) {
  if (event.metadata_id == 0 || event.metadata_id > UINT32_MAX ||
      event.stats.size() > kMaxStatsBytes || !IsDeclared()) {
    ++refused_events_;
    return;
  }
  int64_t start = event.start_ps;
  int64_t duration = event.duration_ps;
  if (start < 0) {
    duration = duration > 0 ? start + duration : 0;
    start = 0;
  }
  start = std::min(start, kMaxEventPs - 2);
  duration = std::clamp<int64_t>(duration, 1, kMaxEventPs - 1 - start);
  const int64_t end = start + duration;

  // Encoded directly after the others: its size is known only then.
  size_t offset = kHeaderRoom + event_bytes_;
  GrowTo(&encoded_, offset + kEventRoom + event.stats.size());
  char* const at = encoded_.data() + offset;
  char* const content = at + 2;  // after the tag and a length of one byte
  char* out = content;
  out = WriteVarintField(out, xevent_field::kMetadataId, event.metadata_id);
  out = WriteVarintField(out, xevent_field::kOffsetPs, static_cast<uint64_t>(start));
  out = WriteVarintField(out, xevent_field::kDurationPs, static_cast<uint64_t>(duration));
  out = CopyStats(event.stats, out);
  *at = BytesTag(xline_field::kEvents);
  const auto content_bytes = static_cast<size_t>(out - content);
  if (content_bytes < 0x80) {
    at[1] = static_cast<char>(content_bytes);
  } else {
    const size_t more = VarintSize(content_bytes) - 1;
    std::memmove(content + more, content, content_bytes);
    char length[kMaxVarintBytes];
    (void)WriteVarint(length, content_bytes);
    std::memcpy(at + 1, length, 1 + more);
    out += more;
  }
  const auto bytes = static_cast<size_t>(out - at);

  if (!records_.empty()) {
    const int64_t min_end = std::min(min_end_ps_, end);
    const int64_t max_end = std::max(max_end_ps_, end);
    if (event_bytes_ + bytes > kMaxBytes - kHeaderRoom || max_end - min_end > kMaxSpanPs) {
      Flush();
      offset = kHeaderRoom;
      std::memmove(encoded_.data() + offset, at, bytes);
    } else {
      min_end_ps_ = min_end;
      max_end_ps_ = max_end;
    }
  }
  if (records_.empty()) {
    min_end_ps_ = end;
    max_end_ps_ = end;
  }
  // Last: nothing below throws, so that an event is added as a whole or not at all.
  if (records_.size() == records_.capacity()) {
    const size_t more = std::max<size_t>(2 * records_.capacity(), 16);
    order_.reserve(more);  // first: it always has at least as much room
    records_.reserve(more);
  }
  event_bytes_ += bytes;

  const auto index = static_cast<uint32_t>(records_.size());
  records_.push_back(
      {start, duration, event.depth, static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes)});
  if (order_.empty() || Precedes(records_[order_.back()], records_.back())) {
    order_.push_back(index);
  } else {
    in_order_ = false;
    Sort(index);
  }
}

// Events arrive in the order in which they ended. An event without children goes last; one with
// children goes before the first of them, as far back as it has descendants. Doubling steps find
// the place in logarithmic time.
void SegmentBuilder::Sort(uint32_t index) {
  const Record& added = records_[index];
  size_t high = order_.size() - 1;  // known not to precede the new one
  size_t step = 1;
  size_t low = 0;  // everything before it is known to precede
  while (high >= step) {
    const size_t probe = high - step;
    if (Precedes(records_[order_[probe]], added)) {
      low = probe + 1;
      break;
    }
    high = probe;
    step *= 2;
  }
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (Precedes(records_[order_[middle]], added)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(low), index);
}

char* SegmentBuilder::SortedEvents() {
  if (in_order_) return encoded_.data() + kHeaderRoom;
  GrowTo(&sorted_, kHeaderRoom + event_bytes_ + kShortBytes);
  char* out = sorted_.data() + kHeaderRoom;
  for (const uint32_t index : order_) {
    const Record& record = records_[index];
    const char* const event = encoded_.data() + record.offset;
    // Both buffers have that much space after their last event.
    if (record.bytes <= kShortBytes) {
      std::memcpy(out, event, kShortBytes);
    } else {
      std::memcpy(out, event, record.bytes);
    }
    out += record.bytes;
  }
  return sorted_.data() + kHeaderRoom;
}

void SegmentBuilder::Flush() {
  if (records_.empty()) return;
  char* const events = SortedEvents();

  // The header is written last, directly before the events: only now are the first and the last
  // start known.
  char header[kHeaderRoom + kMaxVarintBytes];
  char* h = header;
  h = WriteVarintField(h, events_field::kPlane, key_.plane);
  h = WriteVarintField(h, events_field::kLine, ZigZag(key_.line));
  h = WriteVarintField(h, events_field::kSource, source_);
  h = WriteVarintField(h, events_field::kCount, records_.size());
  h = WriteVarintField(h, events_field::kFirstStart, ZigZag(records_[order_.front()].start_ps));
  h = WriteVarintField(h, events_field::kLastStart, ZigZag(records_[order_.back()].start_ps));
  *h++ = BytesTag(events_field::kEvents);
  h = WriteVarint(h, event_bytes_);
  const auto header_bytes = static_cast<size_t>(h - header);
  char* const body = events - header_bytes;
  std::memcpy(body, header, header_bytes);

  if (sink_->Append(ItemKind::kEvents, std::string_view(body, header_bytes + event_bytes_))) {
    appended_events_ += records_.size();
  } else {
    refused_events_ += records_.size();
  }
  records_.clear();
  order_.clear();
  in_order_ = true;
  event_bytes_ = 0;
}

}  // namespace jobscope::xspace
