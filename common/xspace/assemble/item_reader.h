// SPDX-License-Identifier: Apache-2.0
//
// Reads items into an index, and checks all their bytes.
#ifndef COMMON_XSPACE_ASSEMBLE_ITEM_READER_H_
#define COMMON_XSPACE_ASSEMBLE_ITEM_READER_H_

#include <cstdint>
#include <string_view>

#include "common/containers/hash_table.h"
#include "common/xspace/assemble/item_index.h"
#include "common/xspace/segment/store.h"

namespace jobscope::xspace {

// Reads a session's items in their order. An item that it has read can be used unchecked.
class ItemReader {
 public:
  // `index` must outlive this.
  explicit ItemReader(ItemIndex* index) : index_(index) {}

  // Adds an item, whose bytes must outlive the index. Returns false if its kind is unknown. Throws
  // protozero::exception if its bytes are invalid, or refer to a plane, line or name that no
  // earlier item declares.
  bool Read(const ItemView& item);

 private:
  void ReadEvents(const ItemView& item);
  void ReadNames(std::string_view body);
  void ReadName(std::string_view name, bool of_events, IndexedPlane* plane);
  void ReadLine(std::string_view body);
  void ReadPlane(std::string_view body);
  void ReadRawPlane(const ItemView& item);
  void ReadLoss(std::string_view body);
  void ReadClock(std::string_view body);
  void ReadSummary(std::string_view body);
  IndexedPlane& Plane(uint64_t key);

  ItemIndex* const index_;
  HashSet<std::string_view> plane_names_;
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_ITEM_READER_H_
