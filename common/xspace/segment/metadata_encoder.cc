// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/metadata_encoder.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/pbf.h"

namespace jobscope::xspace {
namespace {

// Views a jobscope.v1.Names.Name that the index has checked.
struct NameView {
  uint64_t id = 0;
  std::string_view name;
  std::string_view display_name;
  std::string_view stats;
};

NameView ReadName(std::string_view bytes) {
  NameView name;
  protozero::pbf_reader reader = Reader(bytes);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case VarintField(name_field::kId):
        name.id = reader.get_uint64();
        break;
      case BytesField(name_field::kName):
        name.name = View(&reader);
        break;
      case BytesField(name_field::kDisplayName):
        name.display_name = View(&reader);
        break;
      case BytesField(name_field::kStats):
        name.stats = View(&reader);
        break;
      default:
        reader.skip();
    }
  }
  return name;
}

}  // namespace

void EncodeEventMetadata(std::string_view bytes, std::string* out) {
  const NameView name = ReadName(bytes);
  protozero::pbf_writer plane(*out);
  protozero::pbf_writer entry(plane, xplane_field::kEventMetadata);
  entry.add_int64(map_entry_field::kKey, static_cast<int64_t>(name.id));
  protozero::pbf_writer value(entry, map_entry_field::kValue);
  value.add_int64(xevent_metadata_field::kId, static_cast<int64_t>(name.id));
  value.add_string(xevent_metadata_field::kName, name.name.data(), name.name.size());
  if (!name.display_name.empty()) {
    value.add_string(xevent_metadata_field::kDisplayName, name.display_name.data(),
                     name.display_name.size());
  }
  out->append(name.stats.data(), name.stats.size());
}

void EncodeStatMetadata(std::string_view bytes, std::string* out) {
  const NameView name = ReadName(bytes);
  EncodeStatMetadata(name.id, name.name, out);
}

void EncodeStatMetadata(std::string_view bytes, std::string_view from, std::string_view to,
                        std::string* out) {
  const NameView name = ReadName(bytes);
  EncodeStatMetadata(name.id, name.name == from ? to : name.name, out);
}

void EncodeStatMetadata(uint64_t id, std::string_view name, std::string* out) {
  protozero::pbf_writer plane(*out);
  protozero::pbf_writer entry(plane, xplane_field::kStatMetadata);
  entry.add_int64(map_entry_field::kKey, static_cast<int64_t>(id));
  protozero::pbf_writer value(entry, map_entry_field::kValue);
  value.add_int64(xstat_metadata_field::kId, static_cast<int64_t>(id));
  value.add_string(xstat_metadata_field::kName, name.data(), name.size());
}

}  // namespace jobscope::xspace
