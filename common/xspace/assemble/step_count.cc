// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/step_count.h"

#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>
#include <string_view>

#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/pbf.h"

namespace jobscope::xspace {
namespace {

constexpr std::string_view kStepStat = "_r";
constexpr auto kBytes = protozero::pbf_wire_type::length_delimited;
constexpr auto kVarint = protozero::pbf_wire_type::varint;

// Returns the id of the stat in this plane; 0 if it has none.
uint64_t StepStatId(const IndexedPlane& plane) {
  for (const std::string_view entry : plane.stat_names) {
    uint64_t id = 0;
    bool found = false;
    protozero::pbf_reader name = Reader(entry);
    while (name.next()) {
      if (name.tag_and_type() == VarintField(name_field::kId)) {
        id = name.get_uint64();
      } else if (name.tag_and_type() == BytesField(name_field::kName)) {
        found = View(&name) == kStepStat;
      } else {
        name.skip();
      }
    }
    if (found) return id;
  }
  return 0;
}

bool HasStat(protozero::pbf_reader event, uint64_t id) {
  while (event.next(xevent_field::kStats, kBytes)) {
    protozero::pbf_reader stat = event.get_message();
    if (stat.next(xstat_field::kMetadataId, kVarint) && stat.get_uint64() == id) return true;
  }
  return false;
}

}  // namespace

uint64_t CountSteps(const ItemIndex& index, ReadMeter* meter) {
  uint64_t steps = 0;
  try {
    for (const IndexedPlane& plane : index.planes) {
      const uint64_t id = StepStatId(plane);
      if (id == 0) continue;
      for (const IndexedLine& line : plane.lines) {
        for (const Segment& segment : line.segments) {
          AddRead(meter, segment.events);
          protozero::pbf_reader events = Reader(segment.events);
          while (events.next(xline_field::kEvents, kBytes)) {
            if (HasStat(events.get_message(), id)) ++steps;
          }
        }
      }
    }
  } catch (const protozero::exception&) {
    // On an error, keeps the count: these are a worker's own bytes, and the counted steps are in
    // the trace.
  }
  if (meter != nullptr) meter->ReleaseNow();
  return steps;
}

}  // namespace jobscope::xspace
