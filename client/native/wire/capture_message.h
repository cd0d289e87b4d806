// SPDX-License-Identifier: Apache-2.0
//
// Reads jobscope.v1.CaptureResponse without building it: items are many and large, and come from a
// foreign process.
#ifndef CLIENT_NATIVE_WIRE_CAPTURE_MESSAGE_H_
#define CLIENT_NATIVE_WIRE_CAPTURE_MESSAGE_H_

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
  kNone = 0,  // empty, or from a newer worker
  kArmed = 1,
  kStarted = 2,
  kProgress = 3,
  kItems = 4,
  kEnded = 5,
  kChunk = 6,
};

struct CaptureMessage {
  MessageKind kind = MessageKind::kNone;
  std::string_view bytes;  // of the inner message
};

// Returns the message inside a CaptureResponse; of several, the last.
absl::StatusOr<CaptureMessage> ReadCaptureMessage(std::string_view bytes);

// One item of an Items message or a spool. Views into the input.
struct ItemField {
  std::string_view field;  // with its header, as encoded
  uint64_t number = 0;
  xspace::ItemKind kind = xspace::ItemKind::kEvents;  // possibly an unknown kind
  std::string_view body;
};

// Passes each item of a jobscope.v1.Items to `take`, in order, until `take` returns an error, which
// is then returned. Returns kInvalidArgument at bytes that are no Items; earlier items have then
// been passed.
absl::Status ReadItems(std::string_view items,
                       absl::FunctionRef<absl::Status(const ItemField& item)> take);

// Header of an events item. The body may be cut anywhere after it.
struct EventsHead {
  uint64_t count = 0;
  int64_t last_start_ps = 0;
};
absl::StatusOr<EventsHead> ReadEventsHead(std::string_view body);

// A jobscope.v1.Chunk: a piece of an item's body. A view into the input.
struct ItemChunk {
  uint64_t number = 0;
  xspace::ItemKind kind = xspace::ItemKind::kEvents;  // possibly an unknown kind
  uint64_t body_bytes = 0;                            // of the whole body
  uint64_t offset = 0;
  std::string_view data;
};
absl::StatusOr<ItemChunk> ReadChunk(std::string_view bytes);

// Returns the bytes before an item's body in a field of Items.
std::string ItemHead(uint64_t number, xspace::ItemKind kind, uint64_t body_bytes);

// Returns whether this program can use items of this kind.
bool IsKnownKind(xspace::ItemKind kind);

}  // namespace jobscope

#endif  // CLIENT_NATIVE_WIRE_CAPTURE_MESSAGE_H_
