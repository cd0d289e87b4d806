// SPDX-License-Identifier: Apache-2.0
#include "collectors/xspace_import/foreign_xspace_reader.h"

#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/pbf.h"

namespace jobscope::framework {
namespace {

using xspace::BytesField;
using xspace::Reader;
using xspace::VarintField;
using xspace::View;
namespace xevent_field = xspace::xevent_field;
namespace xevent_metadata_field = xspace::xevent_metadata_field;
namespace xline_field = xspace::xline_field;
namespace xplane_field = xspace::xplane_field;
namespace xspace_field = xspace::xspace_field;
namespace xstat_field = xspace::xstat_field;
namespace map_entry_field = xspace::map_entry_field;

// XEvent field that our own segments never have.
constexpr uint32_t kNumOccurrences = 5;

struct MapEntry {
  uint64_t key = 0;
  std::string_view value;
};

MapEntry ReadEntry(std::string_view bytes) {
  MapEntry entry;
  protozero::pbf_reader reader = Reader(bytes);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case VarintField(map_entry_field::kKey):
        entry.key = reader.get_uint64();
        break;
      case BytesField(map_entry_field::kValue):
        entry.value = View(&reader);
        break;
      default:
        reader.skip();
    }
  }
  return entry;
}

std::string_view ReadStatName(std::string_view bytes) {
  std::string_view name;
  ForEachField(bytes, xspace::xstat_metadata_field::kName,
               [&name](std::string_view text) { name = text; });
  return name;
}

}  // namespace

void ForEachField(std::string_view message, uint32_t field,
                  void (*on_field)(void* context, std::string_view bytes), void* context) {
  protozero::pbf_reader reader = Reader(message);
  while (reader.next()) {
    if (reader.tag_and_type() == BytesField(field)) {
      on_field(context, View(&reader));
    } else {
      reader.skip();
    }
  }
}

ForeignStat ReadForeignStat(std::string_view bytes) {
  using Type = ForeignStat::Type;
  ForeignStat stat;
  protozero::pbf_reader reader = Reader(bytes);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case VarintField(xstat_field::kMetadataId):
        stat.metadata_id = reader.get_uint64();
        break;
      case xspace::Fixed64Field(xstat_field::kDouble):
        stat.type = Type::kDouble;
        stat.number = reader.get_double();
        break;
      case VarintField(xstat_field::kUint64):
        stat.type = Type::kUint64;
        stat.integer = reader.get_uint64();
        break;
      case VarintField(xstat_field::kInt64):
        stat.type = Type::kInt64;
        stat.integer = reader.get_uint64();
        break;
      case VarintField(xstat_field::kRef):
        stat.type = Type::kRef;
        stat.integer = reader.get_uint64();
        break;
      case BytesField(xstat_field::kString):
        stat.type = Type::kString;
        stat.text = View(&reader);
        break;
      case BytesField(xstat_field::kBytes):
        stat.type = Type::kBytes;
        stat.text = View(&reader);
        break;
      default:
        reader.skip();
    }
  }
  return stat;
}

ForeignEvent ReadForeignEvent(std::string_view bytes) {
  ForeignEvent event;
  event.bytes = bytes;
  protozero::pbf_reader reader = Reader(bytes);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case VarintField(xevent_field::kMetadataId):
        event.metadata_id = reader.get_uint64();
        break;
      case VarintField(xevent_field::kOffsetPs):
        event.offset_ps = reader.get_int64();
        event.is_aggregate = false;
        break;
      case VarintField(xevent_field::kDurationPs):
        event.duration_ps = reader.get_int64();
        break;
      case VarintField(kNumOccurrences):
        event.is_aggregate = true;
        reader.skip();
        break;
      default:
        reader.skip();
    }
  }
  return event;
}

ForeignEventMetadata ReadForeignEventMetadata(std::string_view bytes) {
  ForeignEventMetadata metadata;
  protozero::pbf_reader reader = Reader(bytes);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case BytesField(xevent_metadata_field::kName):
        metadata.name = View(&reader);
        break;
      case BytesField(xevent_metadata_field::kDisplayName):
        metadata.display_name = View(&reader);
        break;
      case BytesField(xevent_metadata_field::kStats):
        metadata.stats.push_back(View(&reader));
        break;
      default:
        reader.skip();
    }
  }
  return metadata;
}

ForeignLine ReadForeignLine(std::string_view bytes) {
  ForeignLine line;
  line.bytes = bytes;
  protozero::pbf_reader reader = Reader(bytes);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case VarintField(xline_field::kId):
        line.id = reader.get_int64();
        break;
      case VarintField(xline_field::kTimestampNs):
        line.timestamp_ns = reader.get_int64();
        break;
      case BytesField(xline_field::kName):
        line.name = View(&reader);
        break;
      case BytesField(xline_field::kDisplayName):
        line.display_name = View(&reader);
        break;
      case BytesField(xline_field::kEvents):
        ++line.events;
        reader.skip();
        break;
      default:
        reader.skip();
    }
  }
  return line;
}

std::string_view ForeignPlane::StatName(uint64_t id) const {
  const auto found = stat_names.find(id);
  return found == stat_names.end() ? std::string_view() : found->second;
}

ForeignEventMetadata ForeignPlane::EventMetadata(uint64_t id) const {
  const auto found = event_metadata.find(id);
  return found == event_metadata.end() ? ForeignEventMetadata()
                                       : ReadForeignEventMetadata(found->second);
}

ForeignPlane ReadForeignPlane(std::string_view bytes) {
  ForeignPlane plane;
  protozero::pbf_reader reader = Reader(bytes);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case VarintField(xplane_field::kId):
        plane.id = reader.get_int64();
        break;
      case BytesField(xplane_field::kName):
        plane.name = View(&reader);
        break;
      case BytesField(xplane_field::kLines):
        plane.lines.push_back(View(&reader));
        break;
      case BytesField(xplane_field::kStats):
        plane.stats.push_back(View(&reader));
        break;
      case BytesField(xplane_field::kEventMetadata): {
        const MapEntry entry = ReadEntry(View(&reader));
        plane.event_metadata[entry.key] = entry.value;
        break;
      }
      case BytesField(xplane_field::kStatMetadata): {
        const MapEntry entry = ReadEntry(View(&reader));
        plane.stat_names[entry.key] = ReadStatName(entry.value);
        break;
      }
      default:
        reader.skip();
    }
  }
  return plane;
}

std::string_view ReadForeignPlaneName(std::string_view bytes) {
  std::string_view name;
  ForEachField(bytes, xplane_field::kName, [&name](std::string_view text) { name = text; });
  return name;
}

ForeignSpace ReadForeignSpace(std::string_view bytes) {
  ForeignSpace space;
  protozero::pbf_reader reader = Reader(bytes);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case BytesField(xspace_field::kPlanes):
        space.planes.push_back(View(&reader));
        break;
      case BytesField(xspace_field::kErrors):
        space.errors.push_back(View(&reader));
        break;
      case BytesField(xspace_field::kWarnings):
        space.warnings.push_back(View(&reader));
        break;
      default:
        reader.skip();
    }
  }
  return space;
}

}  // namespace jobscope::framework
