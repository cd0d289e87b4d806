// SPDX-License-Identifier: Apache-2.0
//
// Writes valid XSpaces from items; no other code does.
#ifndef COMMON_XSPACE_ASSEMBLE_ASSEMBLER_H_
#define COMMON_XSPACE_ASSEMBLE_ASSEMBLER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/files/byte_sink.h"
#include "common/xspace/assemble/item_index.h"
#include "common/xspace/segment/store.h"

namespace jobscope::xspace {

// protobuf can only read files below 2 GiB.
inline constexpr uint64_t kMaxPartBytes = uint64_t{1900} << 20;

struct AssembleOptions {
  // XSpace.hostnames[0]: the stem of the trace's file.
  std::string hostname;
  // Maximum size of one part in bytes, at most kMaxPartBytes; parts are cut by time. A part that
  // holds only names, or a single event, may exceed it.
  uint64_t part_limit_bytes = 256ull << 20;
  // profile_start_time (epoch) if the items have no summary that gives it: a truncated trace still
  // belongs at its place on the common time axis.
  std::optional<int64_t> zero_unix_ns;
  // Rank of the worker if the items have no summary that gives it.
  std::optional<int> rank;
  // True: an unreadable item ends the trace instead of returning an error. The items before it are
  // written; a warning and unreadable() give the reason.
  bool keep_readable = false;
  // Further texts for XSpace.warnings.
  std::vector<std::string> warnings;
  // Called by Create, Write and CountSteps each time that items in 16 more 2 MiB chunks have been
  // read, with the addresses of these chunks. A caller that maps the items from a file can release
  // their pages; they are read again when needed, also by a sink that still holds some of them by
  // reference. May be empty.
  std::function<void(const std::vector<uintptr_t>& chunks)> release_pages;
};

// Describes one XSpace to write: the events that start in [begin_ps, end_ps).
struct Part {
  int64_t begin_ps = 0;
  int64_t end_ps = 0;       // INT64_MAX in the last part
  uint64_t size_bytes = 0;  // size of the whole XSpace
  uint64_t events = 0;
};

// Plans and writes the XSpaces of one session. Memory: an index of the items and one copy buffer;
// never an XSpace.
//
// Any prefix of a session's items is valid input: names precede their use, and facts from the
// summary are then absent. Within a line, segments are packed greedily into sorted runs, and the
// runs are merged event by event; a line with one run is copied in bulk. The plane `Task
// Environment` carries profile_start_time, profile_stop_time (uint64, epoch ns; on the client's
// clock if the summary gives it) and jobscope_summary (bytes). Losses and the summary's warnings
// become XSpace.warnings.
class Assembler {
 public:
  // Indexes and plans `items`, which must outlive the assembler. Untrusted bytes (a spool file) are
  // checked: an item that does not parse, an unknown plane, a number out of sequence or events out
  // of order are errors that name the item.
  static absl::StatusOr<Assembler> Create(absl::Span<const ItemView> items,
                                          AssembleOptions options);
  // Does the same for items that have been indexed, with kStop if `keep_readable`.
  static absl::StatusOr<Assembler> CreateIndexed(ItemIndex index, AssembleOptions options);

  Assembler(Assembler&&) noexcept;
  Assembler& operator=(Assembler&&) noexcept;
  ~Assembler();

  // Returns the parts in the order of time; at least one.
  const std::vector<Part>& parts() const;
  uint64_t events() const;  // of all parts
  // Counts the whole training steps in all parts, for a trace without a summary. Reads all events
  // once more.
  uint64_t CountSteps() const;
  // Not OK: the item that could not be read; the trace ends before it.
  const absl::Status& unreadable() const;

  // Writes parts()[index], exactly size_bytes bytes. Stops at the first error of the sink and
  // returns it.
  absl::Status Write(size_t index, ByteSink* sink) const;

 private:
  struct State;
  explicit Assembler(State* state);
  static absl::StatusOr<Assembler> Create(std::unique_ptr<State> state);
  State* state_;
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_ASSEMBLER_H_
