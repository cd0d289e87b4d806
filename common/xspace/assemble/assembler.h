// SPDX-License-Identifier: Apache-2.0
//
// Writes valid XSpaces from items: the only code that does.
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
#include "common/xspace/assemble/item_index.h"
#include "common/xspace/segment/store.h"

namespace jobscope::xspace {

// Where the bytes of an XSpace go, in order.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  // `stable` bytes lie in the items' own memory and may be kept by reference as long as that lives;
  // others must be copied before the call returns.
  virtual absl::Status Write(std::string_view bytes, bool stable) = 0;
};

// A file that protobuf can still read has less than 2 GiB.
inline constexpr uint64_t kMaxPartBytes = uint64_t{1900} << 20;

struct AssembleOptions {
  // XSpace.hostnames[0]: the stem of the file that the trace is written to.
  std::string hostname;
  // Upper limit of one part in bytes, at most kMaxPartBytes; parts are cut by time. A part that
  // holds nothing but names, or a single event, may exceed it.
  uint64_t part_limit_bytes = 256ull << 20;
  // profile_start_time (epoch) where the items have no summary to tell it: a trace that was cut
  // short still belongs at its place on the common axis.
  std::optional<int64_t> zero_unix_ns;
  // Of the worker, where the items have no summary to tell it.
  std::optional<int> rank;
  // True: an item that cannot be read ends the trace instead of being an error. What precedes it
  // is written, and a warning and unreadable() tell why.
  bool keep_readable = false;
  // What else is to be said about the trace: more XSpace.warnings.
  std::vector<std::string> warnings;
  // Called each time that items in 16 more chunks of 2 MiB have been read, in Create and in Write,
  // with the addresses of these chunks: whoever maps the items from a file can let go of their
  // pages, which are read again where they are needed; also by a sink that still holds some of
  // them by reference. May be empty.
  std::function<void(const std::vector<uintptr_t>& chunks)> let_go;
};

// One XSpace to write: the events that start in [begin_ps, end_ps).
struct Part {
  int64_t begin_ps = 0;
  int64_t end_ps = 0;       // INT64_MAX in the last part
  uint64_t size_bytes = 0;  // of the whole XSpace
  uint64_t events = 0;
};

// Plans and writes the XSpaces of one session. Memory: an index of the items and one copy buffer;
// never an XSpace.
//
// Any prefix of a session's items is good input: names precede their use, and what the summary
// would have said is then absent. Within a line, segments are packed greedily into sorted runs and
// the runs merged event by event; a line of one run is copied in bulk. The plane `Task Environment`
// carries profile_start_time, profile_stop_time (uint64, epoch ns; on the client's clock where the
// summary tells it) and jobscope_summary (bytes); losses and the summary's warnings become
// XSpace.warnings.
class Assembler {
 public:
  // `items` must outlive the assembler. Foreign bytes (a spool file) are checked: an item that does
  // not parse, an unknown plane, a number out of sequence, events out of order are errors that name
  // the item.
  static absl::StatusOr<Assembler> Create(absl::Span<const ItemView> items,
                                          AssembleOptions options);
  // Of items that have been indexed already, with kStop where `keep_readable`.
  static absl::StatusOr<Assembler> CreateIndexed(ItemIndex index, AssembleOptions options);

  Assembler(Assembler&&) noexcept;
  Assembler& operator=(Assembler&&) noexcept;
  ~Assembler();

  // At least one part; in the order of time.
  const std::vector<Part>& parts() const;
  uint64_t events() const;  // in all parts
  // Whole steps in all parts, for a trace without a summary: reads all events once more.
  uint64_t CountSteps() const;
  // Not OK: the item that could not be read; the trace ends before it.
  const absl::Status& unreadable() const;

  // Writes parts()[index]: exactly size_bytes bytes. The first error of the sink ends it and is
  // returned.
  absl::Status Write(size_t index, ByteSink* sink) const;

 private:
  struct State;
  explicit Assembler(State* state);
  static absl::StatusOr<Assembler> Create(std::unique_ptr<State> state);
  State* state_;
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_ASSEMBLER_H_
