// SPDX-License-Identifier: Apache-2.0
//
// Checks parts of items, which are untrusted. For use by ItemReader.
#ifndef COMMON_XSPACE_ASSEMBLE_ITEM_CHECK_H_
#define COMMON_XSPACE_ASSEMBLE_ITEM_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <protozero/exception.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace jobscope::xspace {

// Reports what is wrong with an item. ItemReader throws it and ItemIndexer catches it, like
// protozero's own exceptions: items are read several calls deep, and a status at each level would
// obscure the parsing.
struct BadItem : protozero::exception {
  explicit BadItem(std::string text) : text(std::move(text)) {}
  const char* what() const noexcept override { return text.c_str(); }
  std::string text;
};

[[noreturn, gnu::noinline, gnu::cold]] void ThrowBadItem(const char* what);

inline void Require(bool condition, const char* otherwise) {
  if (!condition) ThrowBadItem(otherwise);
}

// Requires that `stats` holds only XStats, in fields with that number: their strings must be UTF-8,
// and they may refer to the names 1 to `names`.
void CheckStats(std::string_view stats, uint32_t field, size_t names);

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_ITEM_CHECK_H_
