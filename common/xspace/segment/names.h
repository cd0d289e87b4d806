// SPDX-License-Identifier: Apache-2.0
//
// Assigns metadata ids, per session and plane, and writes the items that declare them. Ids of
// sites, of CUPTI or of foreign traces never appear in encoded bytes.
#ifndef COMMON_XSPACE_SEGMENT_NAMES_H_
#define COMMON_XSPACE_SEGMENT_NAMES_H_

#include <cstdint>
#include <string_view>

#include "common/xspace/segment/item_sink.h"

namespace jobscope::xspace {

// Assigns ids to planes, lines, events and stats, and declares each name once. Thread-safe: one
// mutex, held while an item of at most a few hundred bytes is appended. Callers that need a name
// often keep its id. Ids are dense from 1. If the sink is full, every function returns 0, which no
// event may use: the caller counts the event as lost to a full store. In all texts, invalid UTF-8
// is replaced by '?', because a single such byte would make the whole trace unreadable.
class Names {
 public:
  explicit Names(ItemSink* sink);
  ~Names();
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  // Returns the plane of that name; declares it on first use with XPlane.id `id`. One plane per
  // name (XProf would lose data of a second one).
  PlaneKey Plane(std::string_view name, int64_t id);
  // Adds plane stats: encoded repeated XPlane.stats fields, see stats.h.
  bool AddPlaneStats(PlaneKey plane, std::string_view stats);

  // Returns the id of event metadata (name, display_name, stats) in `plane`. `stats` is encoded
  // repeated XEventMetadata.stats fields.
  uint64_t Event(PlaneKey plane, std::string_view name, std::string_view display_name = {},
                 std::string_view stats = {});
  // Returns the id of stat metadata `name` in `plane`. Also interns string values: an
  // XStat.ref_value is such an id.
  uint64_t Stat(PlaneKey plane, std::string_view name);

  // Declares or renames the line. Returns the line key to use. Line ids in [0xdeadbeef, 0xdeadbeef
  // + 389] modulo 2^32 belong to XProf, and 0 means refused: these are moved up by 2^32.
  int64_t Line(PlaneKey plane, int64_t line, std::string_view name);
  // Declares the line unless it exists; then it keeps its name. For a source that writes to lines
  // for which others may know a better name.
  int64_t EnsureLine(PlaneKey plane, int64_t line, std::string_view name);

 private:
  int64_t DeclareLine(PlaneKey plane, int64_t line, std::string_view name, bool rename);

  struct State;
  State* const state_;
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_SEGMENT_NAMES_H_
