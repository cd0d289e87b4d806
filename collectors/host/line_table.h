// SPDX-License-Identifier: Apache-2.0
//
// The lines of a session, by thread.
#ifndef COLLECTORS_HOST_LINE_TABLE_H_
#define COLLECTORS_HOST_LINE_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "collectors/host/thread_line.h"
#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/names.h"

namespace jobscope::host {

// Makes a line when its thread has something to write. One thread's.
class LineTable {
 public:
  LineTable(xspace::ItemSink* sink, xspace::Names* names) : sink_(sink), names_(names) {}

  // Of the lines that are made from now on. Before the first.
  void SetPlane(xspace::PlaneKey plane) { plane_ = plane; }
  // The line of a thread, under its newest name. Never null.
  ThreadLine* For(int64_t tid, const char* name);
  // No line gets anything any more.
  void RetireAll() const;

  const ThreadLines& lines() const { return lines_; }

 private:
  // Lines and accounts, one per thread id; about 300 bytes each. What comes beyond shares one line.
  static constexpr size_t kMaxLines = 65'536;

  xspace::ItemSink* const sink_;
  xspace::Names* const names_;
  xspace::PlaneKey plane_ = 0;
  ThreadLines lines_;
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_LINE_TABLE_H_
