// SPDX-License-Identifier: Apache-2.0
//
// Keeps the lines of a session by thread.
#ifndef COLLECTORS_HOST_ENCODING_LINE_TABLE_H_
#define COLLECTORS_HOST_ENCODING_LINE_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "collectors/host/encoding/thread_line.h"
#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/names.h"

namespace jobscope::host {

// Creates a thread's line when it has something to write. Not thread-safe.
class LineTable {
 public:
  LineTable(xspace::ItemSink* sink, xspace::Names* names) : sink_(sink), names_(names) {}

  // Sets the plane of new lines. Call it before the first.
  void SetPlane(xspace::PlaneKey plane) { plane_ = plane; }
  // Returns the line of a thread, under its latest name. Never null.
  ThreadLine* For(int64_t tid, const char* name);
  // Retires all lines: they get no more events.
  void RetireAll() const;

  const ThreadLines& lines() const { return lines_; }

 private:
  // Bounds lines and accounts, one per thread id, about 300 bytes each. Further threads share one
  // line.
  static constexpr size_t kMaxLines = 65'536;

  xspace::ItemSink* const sink_;
  xspace::Names* const names_;
  xspace::PlaneKey plane_ = 0;
  ThreadLines lines_;
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_ENCODING_LINE_TABLE_H_
