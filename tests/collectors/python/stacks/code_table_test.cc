// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/stacks/code_table.h"

#include <string>

#include "gtest/gtest.h"

namespace jobscope::python {
namespace {

TEST(CodeTableTest, ALongNameIsCutBetweenCharacters) {
  const Api api;
  TraceApi trace;
  trace.RequestCodeExtraIndex = [](void (*)(void*)) -> intptr_t { return -1; };
  CodeTable codes(api, trace);
  const std::string character = "\xF0\x9F\x9A\x80";
  std::string function;
  for (int i = 0; i < 100; ++i) function += character;
  // In one of them the limit is between two characters.
  for (size_t before = 0; before < character.size(); ++before) {
    const std::string begin(before, 'x');
    std::string expected = "$file.py:7 " + begin;
    while (expected.size() + character.size() <= CodeTable::kMaxNameBytes) expected += character;
    EXPECT_EQ(codes.Name(codes.IdOf("/folder/file.py", 7, begin + function)), expected);
  }
}

}  // namespace
}  // namespace jobscope::python
