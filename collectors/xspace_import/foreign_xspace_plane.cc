// SPDX-License-Identifier: Apache-2.0
#include "collectors/xspace_import/foreign_xspace_plane.h"

#include <algorithm>
#include <cstdint>

#include "common/text/utf8.h"
#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/strict_reader.h"

namespace jobscope::framework {
namespace {

using xspace::StrictReader;
namespace map_entry_field = xspace::map_entry_field;
namespace xevent_metadata_field = xspace::xevent_metadata_field;
namespace xplane_field = xspace::xplane_field;
namespace xstat_field = xspace::xstat_field;
namespace xstat_metadata_field = xspace::xstat_metadata_field;

constexpr uint32_t Bit(uint32_t field) { return uint32_t{1} << field; }

// Replaces invalid strings by ones of the same length, so that no other byte of the message
// changes.
class Cleaner {
 public:
  explicit Cleaner(std::string* message) : message_(message) {}

  void Plane() { Walk(*message_, Bit(xplane_field::kName), &Cleaner::OfPlane); }

 private:
  using OnMessage = void (Cleaner::*)(uint32_t field, std::string_view bytes);

  // Cleans the fields in `strings`; passes the other length-delimited ones to `on_message`.
  void Walk(std::string_view bytes, uint32_t strings, OnMessage on_message) {
    StrictReader reader(bytes);
    while (reader.Next()) {
      const uint32_t field = reader.field();
      const bool is_bytes = reader.is_bytes() && field < 32;
      if (is_bytes && (strings & Bit(field)) != 0) {
        Clean(reader.Bytes());
      } else if (is_bytes && on_message != nullptr) {
        (this->*on_message)(field, reader.Bytes());
      } else {
        reader.Skip();
      }
    }
  }

  void OfPlane(uint32_t field, std::string_view bytes) {
    if (field == xplane_field::kStats) {
      Walk(bytes, Bit(xstat_field::kString), nullptr);
    } else if (field == xplane_field::kEventMetadata) {
      Walk(bytes, 0, &Cleaner::OfEventEntry);
    } else if (field == xplane_field::kStatMetadata) {
      Walk(bytes, 0, &Cleaner::OfStatEntry);
    }
  }
  void OfEventEntry(uint32_t field, std::string_view bytes) {
    if (field != map_entry_field::kValue) return;
    Walk(bytes, Bit(xevent_metadata_field::kName) | Bit(xevent_metadata_field::kDisplayName),
         &Cleaner::OfEventMetadata);
  }
  void OfEventMetadata(uint32_t field, std::string_view bytes) {
    if (field == xevent_metadata_field::kStats) Walk(bytes, Bit(xstat_field::kString), nullptr);
  }
  void OfStatEntry(uint32_t field, std::string_view bytes) {
    if (field != map_entry_field::kValue) return;
    Walk(bytes, Bit(xstat_metadata_field::kName) | Bit(xstat_metadata_field::kDescription),
         nullptr);
  }

  void Clean(std::string_view text) {
    if (IsUtf8(text)) return;
    std::string scratch;
    const std::string_view clean = ToUtf8(text, &scratch);
    std::copy(clean.begin(), clean.end(), message_->begin() + (text.data() - message_->data()));
  }

  std::string* const message_;
};

}  // namespace

std::string CopyRawPlane(std::string_view plane, size_t max_bytes, size_t* left_out) {
  std::string copy;
  copy.reserve(std::min(plane.size(), max_bytes));
  StrictReader reader(plane);
  const char* field = plane.data();
  while (reader.Next()) {
    reader.Skip();
    const auto size = static_cast<size_t>(reader.position() - field);
    if (copy.size() + size <= max_bytes) {
      copy.append(field, size);
    } else {
      ++*left_out;
    }
    field = reader.position();
  }
  Cleaner(&copy).Plane();
  return copy;
}

}  // namespace jobscope::framework
