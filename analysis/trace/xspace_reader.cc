// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/xspace_reader.h"

namespace jobscope::analysis {

using protozero::pbf_reader;
using xspace::BytesField;
using xspace::VarintField;
namespace fields = xspace;

Stat ReadStat(pbf_reader stat) {
  Stat result;
  while (stat.next()) {
    switch (stat.tag_and_type()) {
      case VarintField(fields::xstat_field::kMetadataId):
        result.metadata_id = stat.get_uint64();
        break;
      case xspace::Fixed64Field(fields::xstat_field::kDouble):
        result.type = Stat::Type::kDouble;
        result.number = stat.get_double();
        break;
      case VarintField(fields::xstat_field::kUint64):
      case VarintField(fields::xstat_field::kInt64):
        result.type = Stat::Type::kInteger;
        result.integer = stat.get_int64();
        break;
      case BytesField(fields::xstat_field::kString):
      case BytesField(fields::xstat_field::kBytes):
        result.type = Stat::Type::kText;
        result.text = View(stat.get_view());
        break;
      case VarintField(fields::xstat_field::kRef):
        result.type = Stat::Type::kRef;
        result.ref = stat.get_uint64();
        break;
      default:
        stat.skip();
    }
  }
  return result;
}

std::string_view PlaneNames::Text(const Stat& stat) const {
  if (stat.type == Stat::Type::kText) return stat.text;
  if (stat.type != Stat::Type::kRef) return {};
  const auto name = stats.find(stat.ref);
  return name == stats.end() ? std::string_view() : name->second;
}

std::string_view PlaneName(pbf_reader plane, PassedPages* passed) {
  std::string_view name;
  passed->BeginAt(plane.data().data());
  while (plane.next()) {
    passed->Pass(plane.data().data());
    if (plane.tag_and_type() == BytesField(fields::xplane_field::kName)) {
      name = View(plane.get_view());
    } else {
      plane.skip();
    }
  }
  return name;
}

namespace {

// XEventMetadata and XStatMetadata have `id` and `name` in common.
void ReadMetadataValue(EventMetadata* metadata, uint64_t* id) {
  pbf_reader value = xspace::Reader(metadata->message);
  while (value.next()) {
    switch (value.tag_and_type()) {
      case VarintField(fields::xevent_metadata_field::kId):
        *id = value.get_uint64();
        break;
      case BytesField(fields::xevent_metadata_field::kName):
        metadata->name = View(value.get_view());
        break;
      case BytesField(fields::xevent_metadata_field::kDisplayName):
        metadata->display_name = View(value.get_view());
        break;
      default:
        value.skip();
    }
  }
}

// Returns the key of a map entry.
uint64_t ReadMetadata(pbf_reader entry, EventMetadata* metadata) {
  uint64_t key = 0;
  uint64_t id = 0;
  while (entry.next()) {
    switch (entry.tag_and_type()) {
      case VarintField(fields::map_entry_field::kKey):
        key = entry.get_uint64();
        break;
      case BytesField(fields::map_entry_field::kValue):
        metadata->message = View(entry.get_view());
        ReadMetadataValue(metadata, &id);
        break;
      default:
        entry.skip();
    }
  }
  return key != 0 ? key : id;
}

}  // namespace

PlaneNames ReadPlaneNames(pbf_reader plane, PassedPages* passed) {
  PlaneNames names;
  passed->BeginAt(plane.data().data());
  while (plane.next()) {
    passed->Pass(plane.data().data());
    EventMetadata metadata;
    switch (plane.tag_and_type()) {
      case BytesField(fields::xplane_field::kEventMetadata): {
        const uint64_t id = ReadMetadata(plane.get_message(), &metadata);
        names.events[id] = metadata;
        break;
      }
      case BytesField(fields::xplane_field::kStatMetadata): {
        const uint64_t id = ReadMetadata(plane.get_message(), &metadata);
        names.stats[id] = metadata.name;
        break;
      }
      default:
        plane.skip();
    }
  }
  return names;
}

LineHeader ReadLineHeader(pbf_reader line) {
  LineHeader header;
  while (line.next()) {
    switch (line.tag_and_type()) {
      case VarintField(fields::xline_field::kId):
        header.id = line.get_int64();
        break;
      case BytesField(fields::xline_field::kName):
        header.name = View(line.get_view());
        break;
      case VarintField(fields::xline_field::kTimestampNs):
        header.timestamp_ns = line.get_int64();
        break;
      case BytesField(fields::xline_field::kEvents):
        return header;  // fields are written in the order of their numbers
      default:
        line.skip();
    }
  }
  return header;
}

RawEvent ReadAnyEvent(std::string_view message) {
  RawEvent event;
  event.message = message;
  pbf_reader reader = xspace::Reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case VarintField(fields::xevent_field::kMetadataId):
        event.metadata_id = reader.get_uint64();
        break;
      case VarintField(fields::xevent_field::kOffsetPs):
        event.offset_ps = reader.get_int64();
        break;
      case VarintField(fields::xevent_field::kDurationPs):
        event.duration_ps = reader.get_int64();
        break;
      case BytesField(fields::xevent_field::kStats):
        event.has_stats = true;
        reader.skip();
        break;
      default:
        reader.skip();
    }
  }
  return event;
}

}  // namespace jobscope::analysis
