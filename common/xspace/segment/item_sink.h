// SPDX-License-Identifier: Apache-2.0
//
// Defines where items go. Collectors write to a sink from their own threads; a session's sink is
// its store.
#ifndef COMMON_XSPACE_SEGMENT_ITEM_SINK_H_
#define COMMON_XSPACE_SEGMENT_ITEM_SINK_H_

#include <cstdint>
#include <string_view>

namespace jobscope::xspace {

// Field numbers of the bodies of jobscope.v1.Item.
enum class ItemKind : uint32_t {
  kEvents = 2,
  kNames = 3,
  kLine = 4,
  kPlane = 5,
  kRawPlane = 6,
  kLoss = 7,
  kClock = 8,
  kSummary = 9,
};

// Identifies a plane within a session; dense from 1, assigned by Names.
using PlaneKey = uint32_t;

class ItemSink {
 public:
  virtual ~ItemSink() = default;

  // Appends one item: copies, numbers and publishes it. `body` is the encoded message of `kind`,
  // without its field header. Thread-safe; blocks only for the copy. Returns false and takes
  // nothing if there is no space. Events find the store full at 95 % of its cap, so that names,
  // lines, losses and the summary still fit.
  [[nodiscard]] virtual bool Append(ItemKind kind, std::string_view body) = 0;

  // Returns true once an events item has been refused, until there is space again. A collector then
  // pauses its drain: losses occur in its own buffers, where they are counted exactly.
  virtual bool Full() const = 0;
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_SEGMENT_ITEM_SINK_H_
