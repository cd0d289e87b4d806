// SPDX-License-Identifier: Apache-2.0
//
// Joins the two halves of async operations, which begin and end on different threads.
#ifndef COLLECTORS_HOST_ENCODING_ASYNC_PAIRS_H_
#define COLLECTORS_HOST_ENCODING_ASYNC_PAIRS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/host/encoding/site_table.h"
#include "collectors/host/encoding/thread_line.h"
#include "collectors/host/encoding/window.h"
#include "common/containers/hash_table.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"

namespace jobscope::host {

// One half of a pair, as read from a ring.
struct AsyncHalf {
  uint64_t ticks = 0;
  uint32_t site = 0;
  ThreadLine* line = nullptr;  // of the recording thread; outlives the session
  std::string stats;           // of a begin: its encoded arguments, for the async plane
};

// Matches begins and ends of async operations. A pair is one event on a plane of its own: one line
// per site, and as many lanes of it as needed to keep overlapping operations apart. Halves arrive
// in any order, because threads are drained one after the other. An unmatched end becomes a point
// in time on its thread's line; an unmatched begin extends to the window's end.
//
// Belongs to the thread that drains. The table holds at most kMaxOpen halves.
class AsyncPairs {
 public:
  // Above this many unmatched halves, the oldest end is dropped: most likely its begin was before
  // the session.
  static constexpr size_t kMaxOpen = 65'536;
  // Lanes of one site; further overlapping operations share the last one.
  static constexpr size_t kMaxLanes = 64;
  static constexpr size_t kMaxDone = 8192;

  AsyncPairs(const Reader* reader, xspace::ItemSink* sink, xspace::Names* names,
             const Window* window, SiteTable* host_sites);
  ~AsyncPairs();
  AsyncPairs(const AsyncPairs&) = delete;
  AsyncPairs& operator=(const AsyncPairs&) = delete;

  // Returns the table for arguments of begins.
  SiteTable* sites();

  void Begin(uint64_t id, AsyncHalf half);
  void End(uint64_t id, const AsyncHalf& half);

  // Assigns complete operations to lanes: those of one drain together, in the order of their
  // begins, because this needs the fewest lanes.
  void PlaceDone();
  // Places what is still open, once the window's end is known.
  void Finish();
  // Appends the open segments.
  void Flush();

  // Returns the number of waiting halves in the tables; bounded, however many pairs there are.
  size_t remembered() const { return open_.size() + ends_.size(); }

 private:
  struct Lane;
  struct Open {
    AsyncHalf half;
    bool is_end = false;
    uint64_t order = 0;  // of an end: its arrival
  };
  struct WaitingEnd {
    uint64_t id = 0;
    uint64_t order = 0;
  };

  struct Done {
    uint64_t id = 0;
    AsyncHalf begin;
    uint64_t end_ticks = 0;
    bool ended = false;  // its end was recorded
  };

  void Complete(uint64_t id, AsyncHalf begin, uint64_t end_ticks, bool ended);
  void Place(const Done& done);
  void PlaceEnd(uint64_t id, const AsyncHalf& end);
  // Returns a lane of the site that is free at that time, or the last of too many.
  Lane* LaneFor(SiteTable* table, uint32_t site, int64_t start_ps);
  void DropOldestEnd();
  // Returns whether that end is still unmatched.
  bool Waits(const WaitingEnd& end) const;

  const Reader* const reader_;
  xspace::ItemSink* const sink_;
  xspace::Names* const names_;
  const Window* const window_;
  SiteTable* const host_sites_;
  std::unique_ptr<SiteTable> sites_;  // names of the async plane; null before it exists
  HashMap<uint64_t, Open> open_;
  std::vector<Done> done_;  // not placed yet; at most kMaxDone
  // Ends in order of arrival, at most 2 * kMaxOpen; some may have been matched since.
  std::deque<WaitingEnd> ends_;
  uint64_t last_order_ = 0;
  HashMap<uint32_t, std::vector<std::unique_ptr<Lane>>> lanes_;  // by site
  int64_t lane_count_ = 0;
  xspace::StatsEncoder stats_{xspace::StatsOf::kEvent};
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_ENCODING_ASYNC_PAIRS_H_
