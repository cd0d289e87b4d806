// SPDX-License-Identifier: Apache-2.0
//
// Prepares the planes of a trace: everything that is equal in each of its parts.
#ifndef COMMON_XSPACE_ASSEMBLE_OUTPUT_PLANES_H_
#define COMMON_XSPACE_ASSEMBLE_OUTPUT_PLANES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/xspace/assemble/item_index.h"
#include "common/xspace/assemble/line_merge.h"

namespace jobscope::xspace {

// Describes a plane of the session, or our own `Task Environment`.
struct OutputPlane {
  const IndexedPlane* indexed = nullptr;  // null: a plane that has only `extra`
  bool needs_events = false;              // left out of a part that has no events of it
  std::string head;                       // id, name
  std::string extra;                      // metadata and stats added by the assembler
  uint64_t metadata_bytes = 0;            // size of the indexed names
  uint64_t stats_bytes = 0;               // size of the indexed stats
  std::vector<std::string> line_heads;    // XLine without its events
  std::vector<std::vector<Run>> runs;     // by line
};

// Describes a framework's plane: its bytes, and a name that follows and so replaces theirs.
struct OutputRawPlane {
  std::string_view bytes;
  std::string new_name;  // an XPlane.name field, or empty
  uint64_t events = 0;
};

struct OutputPlanes {
  std::vector<OutputPlane> planes;
  std::vector<OutputRawPlane> raw_planes;  // in the first part
  bool lacks_gpu = false;                  // a GPU plane of the items has no events at all
};

// Decides which planes a trace has and under which names: each name once, no GPU plane without
// events, the session's own stats in `Task Environment`. Adds a text to `warnings` for each renamed
// plane. `zero_unix_ns` is used if there is no summary; `rank` is appended to the names that
// viewers show for the host's threads. The result refers to `index`.
OutputPlanes MakeOutputPlanes(const ItemIndex& index, std::optional<int64_t> zero_unix_ns,
                              std::optional<int> rank, std::vector<std::string>* warnings);

// Appends a string field.
void AddTextField(uint32_t field, std::string_view text, std::string* out);

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_OUTPUT_PLANES_H_
