// SPDX-License-Identifier: Apache-2.0
//
// Reads jobscope.v1.CaptureResponse without building it: items are many and large, and come from
// somebody else's process.
#ifndef CLIENT_WIRE_CAPTURE_MESSAGE_H_
#define CLIENT_WIRE_CAPTURE_MESSAGE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/xspace/segment/item_sink.h"

namespace jobscope {

// Field numbers of CaptureResponse.
enum class MessageKind : uint32_t {
  kNone = 0,  // empty, or of a newer worker
  kArmed = 1,
  kStarted = 2,
  kProgress = 3,
  kItems = 4,
  kEnded = 5,
  kChunk = 6,
};

struct CaptureMessage {
  MessageKind kind = MessageKind::kNone;
  std::string_view bytes;  // of the message inside
};

// The message inside of a CaptureResponse; of several, the last.
absl::StatusOr<CaptureMessage> ReadCaptureMessage(std::string_view bytes);

// One item of a message of items, or of a spool. Views into what was read.
struct ItemField {
  std::string_view field;  // with its header, as it stands there
  uint64_t number = 0;
  xspace::ItemKind kind = xspace::ItemKind::kEvents;  // may be one that we do not know
  std::string_view body;
};

// Hands over each item of a jobscope.v1.Items in its order, until `take` returns an error, which is
// then returned. Bytes that are no Items are kInvalidArgument; those before them are handed over.
absl::Status ReadItems(std::string_view items,
                       absl::FunctionRef<absl::Status(const ItemField& item)> take);

// What an events item says about itself. Its body may be cut anywhere behind that.
struct EventsHead {
  uint64_t count = 0;
  int64_t last_start_ps = 0;
};
absl::StatusOr<EventsHead> ReadEventsHead(std::string_view body);

// A jobscope.v1.Chunk: a piece of an item's body. A view into what was read.
struct ItemChunk {
  uint64_t number = 0;
  xspace::ItemKind kind = xspace::ItemKind::kEvents;  // may be one that we do not know
  uint64_t body_bytes = 0;                            // of the whole body
  uint64_t offset = 0;
  std::string_view data;
};
absl::StatusOr<ItemChunk> ReadChunk(std::string_view bytes);

// What stands before an item's body in a field of Items.
std::string ItemHead(uint64_t number, xspace::ItemKind kind, uint64_t body_bytes);

// Those that this program can use.
bool IsKnownKind(xspace::ItemKind kind);

}  // namespace jobscope

#endif  // CLIENT_WIRE_CAPTURE_MESSAGE_H_
