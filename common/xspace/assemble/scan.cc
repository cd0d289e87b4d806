// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/scan.h"

#include <array>
#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"
#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/pbf.h"

namespace jobscope::xspace {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr pbf_wire_type kBytes = pbf_wire_type::length_delimited;

// Adds `text` as UTF-8, unless there are too many.
void AddUtf8(std::string_view text, std::vector<std::string>* texts) {
  if (texts->size() >= kMaxScanTexts) return;
  std::string scratch;
  texts->emplace_back(ToUtf8(Utf8Prefix(text, kMaxScanTextBytes), &scratch));
}

uint64_t CountEvents(std::string_view line) {
  uint64_t events = 0;
  pbf_reader reader = Reader(line);
  while (reader.next()) {
    if (reader.tag_and_type() == BytesField(xline_field::kEvents)) ++events;
    reader.skip();
  }
  return events;
}

// The stats of the plane `Task Environment` that a scan returns. The enumerators are indices.
enum EnvironmentStat { kStart, kStop, kSummary, kEnvironmentStats };
constexpr std::array<std::string_view, kEnvironmentStats> kEnvironmentStatNames = {
    "profile_start_time", "profile_stop_time", "jobscope_summary"};

// The metadata id that a plane gives to each EnvironmentStat; 0: the plane has no such stat.
using EnvironmentStatIds = std::array<int64_t, kEnvironmentStats>;

// Stores the id if `entry`, one of a plane's stat metadata, has the name of an EnvironmentStat.
void ReadStatMetadata(std::string_view entry, EnvironmentStatIds* ids) {
  int64_t key = 0;
  std::string_view name;
  pbf_reader reader = Reader(entry);
  while (reader.next()) {
    if (reader.tag_and_type() == VarintField(map_entry_field::kKey)) {
      key = reader.get_int64();
    } else if (reader.tag_and_type() == BytesField(map_entry_field::kValue)) {
      const std::string_view value = View(&reader);
      pbf_reader metadata = Reader(value);
      while (metadata.next(xstat_metadata_field::kName, kBytes)) name = View(&metadata);
    } else {
      reader.skip();
    }
  }
  for (size_t i = 0; i < kEnvironmentStatNames.size(); ++i) {
    if (name == kEnvironmentStatNames[i]) (*ids)[i] = key;
  }
}

void ReadEnvironmentStat(std::string_view stat, const EnvironmentStatIds& ids, XSpaceScan* scan) {
  int64_t id = 0;
  std::optional<uint64_t> number;
  std::optional<std::string_view> bytes;
  pbf_reader reader = Reader(stat);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case VarintField(xstat_field::kMetadataId):
        id = reader.get_int64();
        break;
      case VarintField(xstat_field::kUint64):
      case VarintField(xstat_field::kInt64):
        number = reader.get_uint64();
        break;
      case BytesField(xstat_field::kBytes):
        bytes = View(&reader);
        break;
      default:
        reader.skip();
    }
  }
  if (id == 0) return;
  if (id == ids[kStart] && number.has_value()) scan->profile_start_time_ns = number;
  if (id == ids[kStop] && number.has_value()) scan->profile_stop_time_ns = number;
  if (id == ids[kSummary] && bytes.has_value() && bytes->size() <= kMaxScanSummaryBytes) {
    scan->summary = std::string(*bytes);
  }
}

// Reads the plane twice: its stats may precede their metadata.
void ReadEnvironment(std::string_view plane, XSpaceScan* scan) {
  EnvironmentStatIds ids = {};
  pbf_reader metadata = Reader(plane);
  while (metadata.next(xplane_field::kStatMetadata, kBytes)) {
    ReadStatMetadata(View(&metadata), &ids);
  }
  pbf_reader stats = Reader(plane);
  while (stats.next(xplane_field::kStats, kBytes)) ReadEnvironmentStat(View(&stats), ids, scan);
}

void ReadPlane(std::string_view plane, XSpaceScan* scan) {
  ++scan->planes;
  std::string_view name;
  pbf_reader reader = Reader(plane);
  while (reader.next()) {
    if (reader.tag_and_type() == BytesField(xplane_field::kName)) {
      name = View(&reader);
    } else if (reader.tag_and_type() == BytesField(xplane_field::kLines)) {
      ++scan->lines;
      scan->events += CountEvents(View(&reader));
    } else {
      reader.skip();
    }
  }
  AddUtf8(name, &scan->plane_names);
  if (name == "Task Environment") ReadEnvironment(plane, scan);
}

void ReadSpace(std::string_view bytes, XSpaceScan* scan) {
  pbf_reader reader = Reader(bytes);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case BytesField(xspace_field::kPlanes):
        ReadPlane(View(&reader), scan);
        break;
      case BytesField(xspace_field::kErrors):
        AddUtf8(View(&reader), &scan->errors);
        break;
      case BytesField(xspace_field::kWarnings):
        AddUtf8(View(&reader), &scan->warnings);
        break;
      case BytesField(xspace_field::kHostnames):
        AddUtf8(View(&reader), &scan->hostnames);
        break;
      default:
        reader.skip();
    }
  }
}

}  // namespace

absl::StatusOr<XSpaceScan> ScanXSpace(std::string_view bytes) {
  XSpaceScan scan;
  try {
    ReadSpace(bytes, &scan);
  } catch (const protozero::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a whole XSpace (", error.what(),
                     "): the file was cut off, or something else wrote it"));
  }
  return scan;
}

}  // namespace jobscope::xspace
