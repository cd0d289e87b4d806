// SPDX-License-Identifier: Apache-2.0
//
// Reads XSpaces of any origin in place, event by event. All functions throw protozero::exception on
// malformed bytes; callers catch it once per file.
#ifndef ANALYSIS_TRACE_XSPACE_READER_H_
#define ANALYSIS_TRACE_XSPACE_READER_H_

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/trace/mapped_file.h"
#include "common/xspace/segment/event_reader.h"
#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/pbf.h"

namespace jobscope::analysis {

using xspace::View;

// Views one stat. Text is `text`, or the name of the stat metadata `ref`.
struct Stat {
  uint64_t metadata_id = 0;
  enum class Type { kNone, kInteger, kDouble, kText, kRef } type = Type::kNone;
  int64_t integer = 0;  // also holds uint64 values
  double number = 0;
  std::string_view text;
  uint64_t ref = 0;
};

Stat ReadStat(protozero::pbf_reader stat);

// Calls `callback(const Stat&)` for each field `field` of `message` that is an XStat.
template <typename Callback>
void ForEachStat(std::string_view message, uint32_t field, Callback&& callback) {
  protozero::pbf_reader reader(message.data(), message.size());
  while (reader.next(field, protozero::pbf_wire_type::length_delimited)) {
    callback(ReadStat(reader.get_message()));
  }
}

struct EventMetadata {
  std::string_view name;
  std::string_view display_name;
  std::string_view message;  // the whole XEventMetadata, for its stats
};

// The names of a plane, which follow its lines in the file.
struct PlaneNames {
  // Ids come from any program: a table whose hash is the id itself could be made slow.
  absl::flat_hash_map<uint64_t, EventMetadata> events;
  absl::flat_hash_map<uint64_t, std::string_view> stats;

  // Returns the text of a stat; empty if it has none.
  std::string_view Text(const Stat& stat) const;
};

// Both make a pass over the whole plane.
std::string_view PlaneName(protozero::pbf_reader plane, PassedPages* passed);
PlaneNames ReadPlaneNames(protozero::pbf_reader plane, PassedPages* passed);

// Calls `callback(const Stat&)` for each stat of a plane, in a pass over the whole plane.
template <typename Callback>
void ForEachPlaneStat(protozero::pbf_reader plane, PassedPages* passed, Callback&& callback) {
  passed->BeginAt(plane.data().data());
  while (plane.next()) {
    passed->Pass(plane.data().data());
    if (plane.tag() == xspace::xplane_field::kStats &&
        plane.wire_type() == protozero::pbf_wire_type::length_delimited) {
      callback(ReadStat(plane.get_message()));
    } else {
      plane.skip();
    }
  }
}

struct LineHeader {
  int64_t id = 0;
  std::string_view name;
  int64_t timestamp_ns = 0;
};

LineHeader ReadLineHeader(protozero::pbf_reader line);

struct RawEvent {
  uint64_t metadata_id = 0;
  int64_t offset_ps = 0;
  int64_t duration_ps = 0;
  // Its stats are the fields xevent_field::kStats of this message, which ends where the event does.
  std::string_view message;
  bool has_stats = false;
};

// Parses an XEvent with its fields in any order.
RawEvent ReadAnyEvent(std::string_view message);

// Calls `callback(const RawEvent&)` for each event of a line, in the order of the file.
template <typename Callback>
void ForEachEvent(std::string_view line, Callback&& callback) {
  const char* in = line.data();
  const char* const end = in + line.size();
  while (in < end) {
    if (*in == xspace::BytesTag(xspace::xline_field::kEvents)) {
      // The encoding that jobscope and most others write.
      xspace::EventView view;
      if (const char* behind = xspace::ReadEvent(in, end, &view); behind != nullptr) {
        RawEvent event;
        event.metadata_id = xspace::FromSpread(view.metadata_id);
        event.offset_ps = static_cast<int64_t>(xspace::FromSpread(view.key.start));
        event.duration_ps = static_cast<int64_t>(xspace::FromSpread(view.key.duration));
        event.message = view.stats;
        event.has_stats = !view.stats.empty();
        callback(event);
        in = behind;
        continue;
      }
    }
    protozero::pbf_reader field(in, static_cast<size_t>(end - in));
    if (!field.next()) break;
    if (field.tag() == xspace::xline_field::kEvents &&
        field.wire_type() == protozero::pbf_wire_type::length_delimited) {
      callback(ReadAnyEvent(View(field.get_view())));
    } else {
      field.skip();
    }
    in = field.data().data();
  }
}

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_XSPACE_READER_H_
