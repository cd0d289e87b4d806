// SPDX-License-Identifier: Apache-2.0
//
// Layouts of versions that provide a table, found in one that consists of its data alone.
#include "collectors/python/stacks/layout.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "common/process/own_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace jobscope::python {
namespace {

using ::testing::Eq;
using ::testing::Optional;

std::array<uint64_t, 8> g_text;

class LayoutTest : public ::testing::Test {
 protected:
  LayoutTest() {
    std::memcpy(runtime_.data(), "xdebugpy", 8);
    runtime_[9] = 7344;  // PyInterpreterState: the head of its threads
    trace_.runtime = runtime_.data();
    api_.minor = 14;
    api_.DecRef = [](Object*) {};
    api_.Err_Clear = [] {};
    api_.IsFinalizing = [] { return 0; };
    api_.Unicode_DecodeUTF8 = [](const char*, intptr_t, const char*) {
      return reinterpret_cast<Object*>(g_text.data());
    };
  }

  std::optional<unsigned> ShiftOfState(uint64_t state) {
    g_text[4] = state;
    const std::optional<Layout> layout = FindLayout(api_, trace_, &memory_);
    if (!layout.has_value()) return std::nullopt;
    EXPECT_EQ(layout->threads_head, 7344u);
    return layout->text_kind_shift;
  }

  std::array<uint64_t, 80> runtime_ = {};
  OwnMemory memory_;
  Api api_;
  TraceApi trace_;
};

// An interned text of one byte a character, compact, ASCII: as 3.14.8 and as 3.14.10 have it.
TEST_F(LayoutTest, TextsAreReadAsTheReleaseHasThem) {
  EXPECT_THAT(ShiftOfState(0x66), Optional(2));
  EXPECT_THAT(ShiftOfState(0x190002), Optional(16));
}

TEST_F(LayoutTest, AnUnknownFormatOfTextsIsAnUnknownLayout) {
  EXPECT_THAT(ShiftOfState(0x1900), Eq(std::nullopt));
  api_.Unicode_DecodeUTF8 = [](const char*, intptr_t, const char*) -> Object* { return nullptr; };
  EXPECT_THAT(ShiftOfState(0x66), Eq(std::nullopt));
}

}  // namespace
}  // namespace jobscope::python
