// SPDX-License-Identifier: Apache-2.0
#include "client/native/wire/capture_message.h"

#include <protozero/buffer_string.hpp>
#include <protozero/exception.hpp>
#include <protozero/types.hpp>

#include "absl/strings/str_cat.h"
#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/strict_reader.h"

namespace jobscope {
namespace {

using xspace::ItemKind;
using xspace::StrictReader;

constexpr uint32_t kItemsField = 1;   // Items.items
constexpr uint32_t kNumberField = 1;  // Item.number

absl::Status Unreadable(std::string_view what, const protozero::exception& error) {
  return absl::InvalidArgumentError(absl::StrCat("the worker sent ",
                                                 absl::string_view(what.data(), what.size()),
                                                 " that cannot be read: ", error.what()));
}

// Reads the item's number and body; of several bodies, the last.
void ReadItem(std::string_view bytes, ItemField* item) {
  StrictReader reader(bytes);
  while (reader.Next()) {
    if (reader.is_varint() && reader.field() == kNumberField) {
      item->number = reader.Varint();
    } else if (reader.is_bytes() && reader.field() != kNumberField) {
      item->kind = static_cast<ItemKind>(reader.field());
      item->body = reader.Bytes();
    } else {
      reader.Skip();
    }
  }
}

}  // namespace

absl::StatusOr<CaptureMessage> ReadCaptureMessage(std::string_view bytes) {
  CaptureMessage message;
  try {
    StrictReader reader(bytes);
    while (reader.Next()) {
      const uint32_t field = reader.field();
      if (reader.is_bytes() && field <= static_cast<uint32_t>(MessageKind::kChunk)) {
        message = {static_cast<MessageKind>(field), reader.Bytes()};
      } else {
        reader.Skip();
      }
    }
  } catch (const protozero::exception& error) {
    return Unreadable("a message", error);
  }
  return message;
}

absl::Status ReadItems(std::string_view items,
                       absl::FunctionRef<absl::Status(const ItemField& item)> take) {
  try {
    StrictReader reader(items);
    const char* at = items.data();
    while (reader.Next()) {
      if (!reader.is_bytes() || reader.field() != kItemsField) {
        reader.Skip();
        at = reader.position();
        continue;
      }
      const std::string_view bytes = reader.Bytes();
      const char* const behind = reader.position();
      ItemField item;
      item.field = std::string_view(at, static_cast<size_t>(behind - at));
      at = behind;
      ReadItem(bytes, &item);
      absl::Status status = take(item);
      if (!status.ok()) return status;
    }
  } catch (const protozero::exception& error) {
    return Unreadable("items", error);
  }
  return absl::OkStatus();
}

absl::StatusOr<EventsHead> ReadEventsHead(std::string_view body) {
  EventsHead head;
  try {
    StrictReader reader(body);
    while (reader.Next()) {
      if (reader.is_varint() && reader.field() == xspace::events_field::kCount) {
        head.count = reader.Varint();
      } else if (reader.is_varint() && reader.field() == xspace::events_field::kLastStart) {
        head.last_start_ps = protozero::decode_zigzag64(reader.Varint());
      } else if (reader.is_bytes() && reader.field() == xspace::events_field::kEvents) {
        break;  // the last field
      } else {
        reader.Skip();
      }
    }
  } catch (const protozero::exception& error) {
    return Unreadable("an events item", error);
  }
  return head;
}

absl::StatusOr<ItemChunk> ReadChunk(std::string_view bytes) {
  ItemChunk chunk;
  try {
    StrictReader reader(bytes);
    while (reader.Next()) {
      if (reader.is_varint() && reader.field() == 1) {
        chunk.number = reader.Varint();
      } else if (reader.is_varint() && reader.field() == 2) {
        chunk.kind = static_cast<ItemKind>(reader.Varint());
      } else if (reader.is_varint() && reader.field() == 3) {
        chunk.body_bytes = reader.Varint();
      } else if (reader.is_varint() && reader.field() == 4) {
        chunk.offset = reader.Varint();
      } else if (reader.is_bytes() && reader.field() == 5) {
        chunk.data = reader.Bytes();
      } else {
        reader.Skip();
      }
    }
  } catch (const protozero::exception& error) {
    return Unreadable("a piece of an item", error);
  }
  return chunk;
}

std::string ItemHead(uint64_t number, ItemKind kind, uint64_t body_bytes) {
  std::string item;
  protozero::add_varint_to_buffer(&item, (kNumberField << 3) | 0);
  protozero::add_varint_to_buffer(&item, number);
  protozero::add_varint_to_buffer(&item, (static_cast<uint64_t>(kind) << 3) | 2);
  protozero::add_varint_to_buffer(&item, body_bytes);
  std::string head;
  protozero::add_varint_to_buffer(&head, (kItemsField << 3) | 2);
  protozero::add_varint_to_buffer(&head, item.size() + body_bytes);
  return head + item;
}

bool IsKnownKind(ItemKind kind) { return kind >= ItemKind::kEvents && kind <= ItemKind::kSummary; }

}  // namespace jobscope
