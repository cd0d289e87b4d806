// SPDX-License-Identifier: Apache-2.0
//
// Reads a foreign XSpace as views into its bytes. Trusts nothing: bytes that do not parse throw
// protozero::exception, which the caller catches; bytes that parse but are invalid give empty
// values.
#ifndef COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_READER_H_
#define COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_READER_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/containers/hash_table.h"

namespace jobscope::framework {

struct ForeignStat {
  enum class Type { kNone, kDouble, kUint64, kInt64, kString, kBytes, kRef };
  uint64_t metadata_id = 0;
  Type type = Type::kNone;
  double number = 0;
  uint64_t integer = 0;   // for kUint64, kInt64 (two's complement), kRef
  std::string_view text;  // for kString, kBytes
};
ForeignStat ReadForeignStat(std::string_view bytes);

struct ForeignEvent {
  uint64_t metadata_id = 0;
  int64_t offset_ps = 0;
  int64_t duration_ps = 0;
  bool is_aggregate = false;  // a number of occurrences, without a time
  std::string_view bytes;     // the whole XEvent, for its stats
};
ForeignEvent ReadForeignEvent(std::string_view bytes);

struct ForeignEventMetadata {
  std::string_view name;
  std::string_view display_name;
  std::vector<std::string_view> stats;
};
ForeignEventMetadata ReadForeignEventMetadata(std::string_view bytes);

struct ForeignLine {
  int64_t id = 0;
  int64_t timestamp_ns = 0;
  std::string_view name;
  std::string_view display_name;
  uint64_t events = 0;
  std::string_view bytes;  // the whole XLine, for its events
};
ForeignLine ReadForeignLine(std::string_view bytes);

// Views a plane without its events. Memory: 16 bytes per line, 32 per name.
struct ForeignPlane {
  int64_t id = 0;
  std::string_view name;
  std::vector<std::string_view> lines;                 // XLine
  std::vector<std::string_view> stats;                 // XStat
  HashMap<uint64_t, std::string_view> event_metadata;  // XEventMetadata by id
  HashMap<uint64_t, std::string_view> stat_names;      // by id

  // Return empty results for undeclared ids.
  std::string_view StatName(uint64_t id) const;
  ForeignEventMetadata EventMetadata(uint64_t id) const;
};
ForeignPlane ReadForeignPlane(std::string_view bytes);
// Reads only the name.
std::string_view ReadForeignPlaneName(std::string_view bytes);

struct ForeignSpace {
  std::vector<std::string_view> planes;  // XPlane
  std::vector<std::string_view> errors;
  std::vector<std::string_view> warnings;
};
ForeignSpace ReadForeignSpace(std::string_view bytes);

// Calls `on_field(bytes)` for each length-delimited field `field` of a message.
void ForEachField(std::string_view message, uint32_t field,
                  void (*on_field)(void* context, std::string_view bytes), void* context);
template <typename OnField>
void ForEachField(std::string_view message, uint32_t field, OnField on_field) {
  ForEachField(
      message, field,
      [](void* context, std::string_view bytes) { (*static_cast<OnField*>(context))(bytes); },
      &on_field);
}

}  // namespace jobscope::framework

#endif  // COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_READER_H_
