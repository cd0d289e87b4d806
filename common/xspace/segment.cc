// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment.h"

#include <algorithm>
#include <cstring>

#include "common/xspace/event_reader.h"
#include "common/xspace/fields.h"
#include "common/xspace/wire.h"

namespace jobscope::xspace {
namespace {

// Room for the fields before the events: six varints and the length, each with its tag.
constexpr size_t kHeaderRoom = 7 * (1 + kMaxVarintBytes);
// Of one event: more than any store takes.
constexpr size_t kMaxStatsBytes = size_t{1} << 30;

uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}

char* WriteVarintField(char* out, uint32_t field, uint64_t value) {
  *out++ = VarintTag(field);
  return WriteVarint(out, value);
}

}  // namespace

SegmentBuilder::SegmentBuilder(ItemSink* sink, PlaneKey plane, int64_t line, uint32_t source)
    : sink_(sink), plane_(plane), line_(line), source_(source) {}

// The order within a segment: by start, longest first, outermost first; of events equal in all
// that, the one that completed last first, because a parent completes after its children.
inline bool SegmentBuilder::Precedes(const Record& a, const Record& b) {
  if (a.start_ps != b.start_ps) return a.start_ps < b.start_ps;
  if (a.duration_ps != b.duration_ps) return a.duration_ps > b.duration_ps;
  if (a.depth != b.depth) return a.depth < b.depth;
  return &a > &b;
}

void SegmentBuilder::Add(const SegmentEvent& event) {
  if (line_ == 0 || event.metadata_id == 0 || event.metadata_id > UINT32_MAX ||
      event.stats.size() > kMaxStatsBytes) {
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
  const size_t content = 3 + VarintSize(event.metadata_id) +
                         VarintSize(static_cast<uint64_t>(start)) +
                         VarintSize(static_cast<uint64_t>(duration)) + event.stats.size();
  const size_t bytes = BytesFieldSize(content);

  if (!records_.empty()) {
    const int64_t min_end = std::min(min_end_ps_, end);
    const int64_t max_end = std::max(max_end_ps_, end);
    if (event_bytes_ + bytes > kMaxBytes - kHeaderRoom || max_end - min_end > kMaxSpanPs) {
      Flush();
    } else {
      min_end_ps_ = min_end;
      max_end_ps_ = max_end;
    }
  }
  if (records_.empty()) {
    min_end_ps_ = end;
    max_end_ps_ = end;
  }
  event_bytes_ += bytes;

  const auto index = static_cast<uint32_t>(records_.size());
  records_.push_back({start, duration, static_cast<uint32_t>(event.metadata_id), event.depth,
                      static_cast<uint32_t>(stats_.size()),
                      static_cast<uint32_t>(event.stats.size())});
  if (!event.stats.empty()) stats_.append(event.stats.data(), event.stats.size());

  // Events come in the order in which they ended. So one without children goes last, and one with
  // children goes before the first of them, which is as far back as it has descendants: doubling
  // steps find the place in log of that.
  const Record& added = records_.back();
  if (order_.empty() || Precedes(records_[order_.back()], added)) {
    order_.push_back(index);
    return;
  }
  size_t high = order_.size() - 1;  // known not to precede the added one
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

void SegmentBuilder::Flush() {
  if (records_.empty()) return;
  // Each event writes up to 8 bytes beyond its last varint.
  const size_t needed = kHeaderRoom + event_bytes_ + kMaxVarintBytes;
  // By doubling: a line that fills its segments gets there soon, and a process may have thousands
  // of lines of one event.
  if (body_.size() < needed) {
    body_.resize(std::max(needed, std::min(2 * body_.size(), kMaxBytes + kMaxVarintBytes)));
  }

  char* const events = body_.data() + kHeaderRoom;
  char* out = events;
  for (const uint32_t index : order_) {
    const Record& record = records_[index];
    const auto start = static_cast<uint64_t>(record.start_ps);
    const auto duration = static_cast<uint64_t>(record.duration_ps);
    *out++ = BytesTag(xline_field::kEvents);
    out = WriteVarint(out, 3 + VarintSize(record.metadata_id) + VarintSize(start) +
                               VarintSize(duration) + record.stats_bytes);
    out = WriteVarintField(out, xevent_field::kMetadataId, record.metadata_id);
    out = WriteVarintField(out, xevent_field::kOffsetPs, start);
    out = WriteVarintField(out, xevent_field::kDurationPs, duration);
    if (record.stats_bytes != 0) {
      std::memcpy(out, stats_.data() + record.stats_offset, record.stats_bytes);
      out += record.stats_bytes;
    }
  }

  // The header is written last, because only now the first and the last start are known, and placed
  // right before.
  char header[kHeaderRoom + kMaxVarintBytes];
  char* h = header;
  h = WriteVarintField(h, events_field::kPlane, plane_);
  h = WriteVarintField(h, events_field::kLine, ZigZag(line_));
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
  stats_.clear();
  event_bytes_ = 0;
}

}  // namespace jobscope::xspace
