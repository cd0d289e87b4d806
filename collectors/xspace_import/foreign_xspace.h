// SPDX-License-Identifier: Apache-2.0
//
// Merges the trace of a framework's own profiler, a serialized XSpace, into a session.
#ifndef COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_H_
#define COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_H_

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "collectors/xspace_import/foreign_xspace_session.h"
#include "collectors/xspace_import/foreign_xspace_time.h"
#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/names.h"

namespace jobscope::framework {

// Merges XSpaces of frameworks and providers into a session's trace:
// - Lines of `/host:CPU` with a known thread join that thread's line; the others get lines of
//   their own in our `/host:CPU`, under an id that is not a thread's.
// - Other planes with lines are joined by name, their lines by id (one plane per name, one line per
//   id: docs/trace_format.md, R1 and R2).
// - Planes without lines, such as `/host:metadata` with the compiled programs, are copied
//   unchanged: their ids have a meaning of their own. Of several with one name, the largest.
// - `Task Environment` only provides the time from which the others count.
//
// Times become session time and are clipped to the window; `names` assigns new ids.
//
// Not thread-safe. Memory: 32 bytes per name of the current XSpace, and the copied planes.
class ForeignXSpace {
 public:
  // Bounds a copied plane: it is one item, which must fit into a message (server/limits.h).
  static constexpr size_t kMaxRawPlaneBytes = size_t{31} << 20;
  // Bounds the sum of copied planes.
  static constexpr size_t kMaxRawBytes = size_t{64} << 20;

  ForeignXSpace(xspace::ItemSink* sink, xspace::Names* names, ForeignOptions options);
  ~ForeignXSpace();
  ForeignXSpace(const ForeignXSpace&) = delete;
  ForeignXSpace& operator=(const ForeignXSpace&) = delete;

  // Changes the option between two Merges; the first mark that was kept stays.
  void set_drop_steps(bool drop) { session_.options.drop_steps = drop; }

  // Merges one XSpace of the session. INVALID_ARGUMENT: the bytes are not an XSpace, or truncated;
  // what precedes the error is in the trace and counted.
  absl::Status Merge(std::string_view bytes, const ForeignTime& time, const ForeignWindow& window);
  // Appends the copied planes. Call it once, at the end.
  void Finish();

  const ForeignAccount& account() const { return session_.account; }

 private:
  void MergePlanes(std::string_view bytes, const ForeignTime& time, const ForeignWindow& window);
  void Warn(std::string_view text);
  void KeepRaw(std::string_view name, std::string_view bytes);
  void TakeTexts(const std::vector<std::string_view>& texts);

  ForeignSession session_;
  std::map<std::string, std::string> raw_planes_;  // by name
  size_t raw_bytes_ = 0;                           // size of raw_planes_
};

}  // namespace jobscope::framework

#endif  // COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_H_
