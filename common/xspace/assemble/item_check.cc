// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/item_check.h"

#include "common/text/utf8.h"
#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/strict_reader.h"

namespace jobscope::xspace {
namespace {

// Checks one XStat: its ids must be known, its strings UTF-8.
void CheckStat(std::string_view stat, size_t names) {
  uint64_t id = 0;
  StrictReader reader(stat);
  while (reader.Next()) {
    if (reader.is_varint() && reader.field() == xstat_field::kMetadataId) {
      id = reader.Varint();
    } else if (reader.is_varint() && reader.field() == xstat_field::kRef) {
      const uint64_t ref = reader.Varint();
      Require(ref >= 1 && ref <= names, "a stat refers to an unknown name");
    } else if (reader.is_bytes() && reader.field() == xstat_field::kString) {
      Require(IsUtf8(reader.Bytes()), "a stat's string is not UTF-8");
    } else {
      reader.Skip();
    }
  }
  Require(id >= 1 && id <= names, "a stat has an unknown name");
}

}  // namespace

void ThrowBadItem(const char* what) { throw BadItem(what); }

void CheckStats(std::string_view stats, uint32_t field, size_t names) {
  StrictReader reader(stats);
  while (reader.Next()) {
    Require(reader.field() == field && reader.is_bytes(), "the stats contain another field");
    CheckStat(reader.Bytes(), names);
  }
}

}  // namespace jobscope::xspace
