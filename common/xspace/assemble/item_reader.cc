// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/item_reader.h"

#include <algorithm>
#include <limits>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"
#include "common/xspace/assemble/item_check.h"
#include "common/xspace/segment/event_reader.h"
#include "common/xspace/segment/raw_plane.h"
#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/pbf.h"
#include "common/xspace/wire/wire.h"

namespace jobscope::xspace {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr pbf_wire_type kBytes = pbf_wire_type::length_delimited;
constexpr pbf_wire_type kVarint = pbf_wire_type::varint;

std::string_view Text(pbf_reader* reader) {
  const std::string_view text = View(reader);
  Require(IsUtf8(text), "a string is not UTF-8");
  return text;
}

}  // namespace

bool ItemReader::Read(const ItemView& item) {
  switch (item.kind) {
    case ItemKind::kEvents:
      ReadEvents(item);
      return true;
    case ItemKind::kNames:
      ReadNames(item.body);
      return true;
    case ItemKind::kLine:
      ReadLine(item.body);
      return true;
    case ItemKind::kPlane:
      ReadPlane(item.body);
      return true;
    case ItemKind::kRawPlane:
      ReadRawPlane(item);
      return true;
    case ItemKind::kLoss:
      ReadLoss(item.body);
      return true;
    case ItemKind::kClock:
      ReadClock(item.body);
      return true;
    case ItemKind::kSummary:
      ReadSummary(item.body);
      return true;
  }
  return false;
}

IndexedPlane& ItemReader::Plane(uint64_t key) {
  Require(key >= 1 && key <= index_->planes.size(), "unknown plane");
  return index_->planes[key - 1];
}

void ItemReader::ReadEvents(const ItemView& item) {
  uint64_t plane_key = 0;
  int64_t line_key = 0;
  uint64_t count = 0;
  uint64_t first_start_ps = 0;
  uint64_t last_start_ps = 0;
  Segment segment;
  pbf_reader reader = Reader(item.body);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case VarintField(events_field::kPlane):
        plane_key = reader.get_uint64();
        break;
      case VarintField(events_field::kLine):
        line_key = reader.get_sint64();
        break;
      case VarintField(events_field::kCount):
        count = reader.get_uint64();
        break;
      case VarintField(events_field::kFirstStart):
        first_start_ps = static_cast<uint64_t>(reader.get_sint64());
        break;
      case VarintField(events_field::kLastStart):
        last_start_ps = static_cast<uint64_t>(reader.get_sint64());
        break;
      case BytesField(events_field::kEvents):
        segment.events = View(&reader);
        break;
      default:
        reader.skip();
    }
  }
  IndexedPlane& plane = Plane(plane_key);
  const auto found = plane.line_by_key.find(line_key);
  Require(found != plane.line_by_key.end(), "unknown line");
  IndexedLine& line = plane.lines[found->second];

  const char* at = segment.events.data();
  const char* const end = at + segment.events.size();
  const Spread last_name = ToSpread(plane.event_names.size());
  EventKey previous{0, std::numeric_limits<Spread>::max()};
  Spread line_end = line.end;
  uint64_t found_count = 0;
  EventView event;
  while (at != end) {
    at = ReadEvent(at, end, &event);
    Require(at != nullptr, "an event does not parse, or lies 20 hours or more after the zero");
    Require(event.metadata_id != 0 && event.metadata_id <= last_name,
            "an event has an unknown name");
    Require(event.key.duration != 0, "an event has no duration");
    Require(!(event.key < previous), "events are out of order");
    if (!event.stats.empty())
      CheckStats(event.stats, xevent_field::kStats, plane.stat_names.size());
    if (found_count++ == 0) segment.first = event.key;
    previous = event.key;
    const Spread event_end = AddSpread(event.key.start, event.key.duration);
    Require(event_end > event.key.start, "an event ends 20 hours or more after the zero");
    line_end = std::max(line_end, event_end);
  }
  segment.count = found_count;
  Require(segment.count == count, "the number of events is not what it says");
  if (segment.count == 0) return;
  segment.last = previous;
  Require(FromSpread(segment.first.start) == first_start_ps &&
              FromSpread(segment.last.start) == last_start_ps,
          "the first or last start is not what it says");
  segment.item = item.number;
  line.end = line_end;
  line.segments.push_back(segment);
}

void ItemReader::ReadName(std::string_view name, bool of_events, IndexedPlane* plane) {
  uint64_t id = 0;
  pbf_reader reader = Reader(name);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case VarintField(name_field::kId):
        id = reader.get_uint64();
        break;
      case BytesField(name_field::kName):
      case BytesField(name_field::kDisplayName):
        Text(&reader);
        break;
      case BytesField(name_field::kStats):
        CheckStats(View(&reader), xevent_metadata_field::kStats, plane->stat_names.size());
        break;
      default:
        reader.skip();
    }
  }
  std::vector<std::string_view>& names = of_events ? plane->event_names : plane->stat_names;
  Require(id == names.size() + 1, "the ids of names are not dense, or one comes twice");
  names.push_back(name);
}

void ItemReader::ReadNames(std::string_view body) {
  uint64_t plane_key = 0;
  pbf_reader first_pass = Reader(body);
  while (first_pass.next(names_field::kPlane, kVarint)) plane_key = first_pass.get_uint64();
  IndexedPlane& plane = Plane(plane_key);
  // Stats first: the event names of the same item may use them.
  pbf_reader stats = Reader(body);
  while (stats.next(names_field::kStats, kBytes)) ReadName(View(&stats), false, &plane);
  pbf_reader events = Reader(body);
  while (events.next(names_field::kEvents, kBytes)) ReadName(View(&events), true, &plane);
}

void ItemReader::ReadLine(std::string_view body) {
  uint64_t plane_key = 0;
  IndexedLine line;
  pbf_reader reader = Reader(body);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case VarintField(line_field::kPlane):
        plane_key = reader.get_uint64();
        break;
      case VarintField(line_field::kLine):
        line.key = reader.get_sint64();
        break;
      case BytesField(line_field::kName):
        line.name = Text(&reader);
        break;
      case BytesField(line_field::kDisplayName):
        line.display_name = Text(&reader);
        break;
      default:
        reader.skip();
    }
  }
  IndexedPlane& plane = Plane(plane_key);
  const auto [found, inserted] = plane.line_by_key.emplace(line.key, plane.lines.size());
  if (inserted) {
    plane.lines.push_back(std::move(line));
  } else {
    plane.lines[found->second].name = line.name;
    plane.lines[found->second].display_name = line.display_name;
  }
}

void ItemReader::ReadPlane(std::string_view body) {
  uint64_t key = 0;
  IndexedPlane added;
  std::vector<std::string_view> stats;
  pbf_reader reader = Reader(body);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case VarintField(plane_field::kPlane):
        key = reader.get_uint64();
        break;
      case VarintField(plane_field::kId):
        added.id = reader.get_sint64();
        break;
      case BytesField(plane_field::kName):
        added.name = Text(&reader);
        break;
      case BytesField(plane_field::kStats):
        stats.push_back(View(&reader));
        break;
      default:
        reader.skip();
    }
  }
  if (key == index_->planes.size() + 1) {
    Require(!added.name.empty(), "a plane has no name");
    Require(plane_names_.insert(added.name).second, "two planes have one name");
    index_->planes.push_back(std::move(added));
  } else {
    Require(added.name.empty() || added.name == Plane(key).name, "a plane changes its name");
  }
  IndexedPlane& plane = Plane(key);
  for (const std::string_view stat : stats) {
    CheckStats(stat, xplane_field::kStats, plane.stat_names.size());
    plane.stats.push_back(stat);
  }
}

void ItemReader::ReadRawPlane(const ItemView& item) {
  IndexedRawPlane raw;
  raw.item = item.number;
  pbf_reader reader = Reader(item.body);
  while (reader.next(raw_plane_field::kPlane, kBytes)) raw.bytes = View(&reader);
  absl::StatusOr<RawPlaneInfo> info = CheckRawPlane(raw.bytes);
  if (!info.ok()) {
    // A framework's planes are untrusted: an error in them must not discard our own events.
    index_->warnings.push_back(absl::StrCat("a framework's plane (item ", item.number,
                                            ") left out: ", info.status().message()));
    return;
  }
  raw.name = std::move(info->name);
  raw.events = info->events;
  index_->raw_planes.push_back(std::move(raw));
}

void ItemReader::ReadLoss(std::string_view body) {
  v1::Loss loss;
  Require(body.size() <= std::numeric_limits<int>::max() &&
              loss.ParseFromArray(body.data(), static_cast<int>(body.size())),
          "it does not parse");
  std::string collector = loss.collector();
  index_->losses[std::move(collector)] = std::move(loss);
}

void ItemReader::ReadClock(std::string_view body) {
  pbf_reader reader = Reader(body);
  while (reader.next()) reader.skip();
  index_->clocks.push_back(body);
}

void ItemReader::ReadSummary(std::string_view body) {
  v1::Summary summary;
  Require(body.size() <= std::numeric_limits<int>::max() &&
              summary.ParseFromArray(body.data(), static_cast<int>(body.size())),
          "it does not parse");
  index_->has_summary = true;
  index_->summary_bytes = body;
  index_->summary = std::move(summary);
}

}  // namespace jobscope::xspace
