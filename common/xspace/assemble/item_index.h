// SPDX-License-Identifier: Apache-2.0
//
// Indexes a session's items as views into them, without copies. Checks all untrusted bytes.
#ifndef COMMON_XSPACE_ASSEMBLE_ITEM_INDEX_H_
#define COMMON_XSPACE_ASSEMBLE_ITEM_INDEX_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/containers/hash_table.h"
#include "common/xspace/assemble/read_meter.h"
#include "common/xspace/segment/event_reader.h"
#include "common/xspace/segment/store.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope::xspace {

// Indexes one events item.
struct Segment {
  uint64_t item = 0;        // its number
  std::string_view events;  // XLine.events fields
  uint64_t count = 0;
  EventKey first;
  EventKey last;
};

struct IndexedLine {
  int64_t key = 0;
  std::string_view name;
  std::string_view display_name;
  Spread end = 0;  // end of the event that ends last
  std::vector<Segment> segments;
};

struct IndexedPlane {
  int64_t id = 0;
  std::string_view name;
  std::vector<std::string_view> stats;        // XPlane.stats fields
  std::vector<std::string_view> event_names;  // jobscope.v1.Names.Name, [id - 1]
  std::vector<std::string_view> stat_names;   // likewise
  std::vector<IndexedLine> lines;
  HashMap<int64_t, size_t> line_by_key;
};

// Indexes a framework's plane.
struct IndexedRawPlane {
  uint64_t item = 0;
  std::string_view bytes;
  std::string name;
  uint64_t events = 0;
};

struct ItemIndex {
  std::vector<IndexedPlane> planes;  // [plane key - 1]
  std::vector<IndexedRawPlane> raw_planes;
  std::vector<std::string_view> clocks;    // jobscope.v1.Clock
  std::map<std::string, v1::Loss> losses;  // by collector
  bool has_summary = false;
  std::string_view summary_bytes;
  v1::Summary summary;
  std::vector<std::string> warnings;  // about items that could not be used
  absl::Status unreadable;            // with Unreadable::kStop: why indexing stopped
};

enum class Unreadable {
  kFail,  // an unreadable item is returned as an error
  kStop,  // the items before the unreadable one are indexed, and the summary, which needs no other
          // item
};

class ItemReader;

// Builds an index of items that arrive one by one. Memory: about 80 bytes per events item, 16 per
// name.
class ItemIndexer {
 public:
  explicit ItemIndexer(Unreadable unreadable);
  ~ItemIndexer();
  ItemIndexer(const ItemIndexer&) = delete;
  ItemIndexer& operator=(const ItemIndexer&) = delete;

  // Reads the next item, whose bytes must outlive the index. With Unreadable::kFail, returns an
  // error that names the item's number; with kStop, never returns one.
  absl::Status Add(const ItemView& item);
  // Returns the index of the items so far. Call it once.
  ItemIndex Finish();

 private:
  // Reads an item, which must have the number `expected_`.
  absl::Status AddExpected(const ItemView& item);

  const Unreadable unreadable_;
  ItemIndex index_;
  const std::unique_ptr<ItemReader> reader_;
  uint64_t expected_ = 0;
  std::map<uint32_t, uint64_t> unknown_kinds_;
  absl::Status stopped_;
};

// Indexes all items at once.
absl::StatusOr<ItemIndex> IndexItems(absl::Span<const ItemView> items, ReadMeter* meter = nullptr,
                                     Unreadable unreadable = Unreadable::kFail);

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_ITEM_INDEX_H_
