// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/raw_plane.h"

#include <protozero/exception.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"
#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/strict_reader.h"
#include "common/xspace/wire/wire.h"

namespace jobscope::xspace {
namespace {

// Thrown within this file only.
struct NotUtf8 : protozero::exception {
  const char* what() const noexcept override { return "a string is not UTF-8"; }
};

constexpr uint32_t Bit(uint32_t field) { return uint32_t{1} << field; }
constexpr auto kNoMessages = [](uint32_t, std::string_view) {};

// Walks a message whose strings are the length-delimited fields in `strings`, and whose messages
// are those in `messages` (bit n: field n); calls `on_message(field, bytes)` for the latter.
// Everything else is skipped.
template <typename OnMessage>
void Check(std::string_view bytes, uint32_t strings, uint32_t messages, OnMessage on_message) {
  StrictReader reader(bytes);
  while (reader.Next()) {
    const uint32_t field = reader.field();
    const uint32_t bit = field < 32 && reader.is_bytes() ? Bit(field) : 0;
    if ((strings & bit) != 0) {
      if (!IsUtf8(reader.Bytes())) throw NotUtf8();
    } else if ((messages & bit) != 0) {
      on_message(field, reader.Bytes());
    } else {
      reader.Skip();
    }
  }
}

void CheckStat(std::string_view stat) { Check(stat, Bit(xstat_field::kString), 0, kNoMessages); }

void CheckEvent(std::string_view event) {
  Check(event, 0, Bit(xevent_field::kStats),
        [](uint32_t, std::string_view stat) { CheckStat(stat); });
}

// Packed varints.
void CheckPacked(std::string_view packed) {
  const char* at = packed.data();
  const char* const end = at + packed.size();
  uint64_t value;
  while (at != end) {
    at = ReadVarint(at, end, &value);
    if (at == nullptr) throw protozero::end_of_buffer_exception();
  }
}

void CheckEventMetadata(std::string_view metadata) {
  Check(metadata, Bit(xevent_metadata_field::kName) | Bit(xevent_metadata_field::kDisplayName),
        Bit(xevent_metadata_field::kStats) | Bit(xevent_metadata_field::kChildId),
        [](uint32_t field, std::string_view bytes) {
          if (field == xevent_metadata_field::kStats) {
            CheckStat(bytes);
          } else {
            CheckPacked(bytes);
          }
        });
}

void CheckStatMetadata(std::string_view metadata) {
  Check(metadata, Bit(xstat_metadata_field::kName) | Bit(xstat_metadata_field::kDescription), 0,
        kNoMessages);
}

void CheckLine(std::string_view line, uint64_t* events) {
  Check(line, Bit(xline_field::kName) | Bit(xline_field::kDisplayName), Bit(xline_field::kEvents),
        [&](uint32_t, std::string_view event) {
          ++*events;
          CheckEvent(event);
        });
}

void CheckPlane(std::string_view plane, RawPlaneInfo* info) {
  constexpr uint32_t kMessages = Bit(xplane_field::kLines) | Bit(xplane_field::kEventMetadata) |
                                 Bit(xplane_field::kStatMetadata) | Bit(xplane_field::kStats);
  Check(plane, 0, kMessages | Bit(xplane_field::kName),
        [&](uint32_t field, std::string_view bytes) {
          switch (field) {
            case xplane_field::kName:
              if (!IsUtf8(bytes)) throw NotUtf8();
              info->name = std::string(bytes);
              break;
            case xplane_field::kLines:
              CheckLine(bytes, &info->events);
              break;
            case xplane_field::kStats:
              CheckStat(bytes);
              break;
            default:  // an entry of one of the two maps
              Check(bytes, 0, Bit(map_entry_field::kValue), [&](uint32_t, std::string_view value) {
                if (field == xplane_field::kEventMetadata) {
                  CheckEventMetadata(value);
                } else {
                  CheckStatMetadata(value);
                }
              });
          }
        });
}

}  // namespace

absl::StatusOr<RawPlaneInfo> CheckRawPlane(std::string_view bytes) {
  RawPlaneInfo info;
  try {
    CheckPlane(bytes, &info);
  } catch (const protozero::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("not a whole XPlane (", error.what(), ")"));
  }
  return info;
}

}  // namespace jobscope::xspace
