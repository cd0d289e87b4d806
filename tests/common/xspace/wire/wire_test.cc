// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/wire/wire.h"

#include <gtest/gtest.h>

#include <protozero/buffer_string.hpp>
#include <protozero/varint.hpp>
#include <string>
#include <vector>

namespace jobscope::xspace {
namespace {

// All powers of two with their neighbours, so each length of a varint at both of its ends.
std::vector<uint64_t> Values() {
  std::vector<uint64_t> values = {0, ~uint64_t{0}};
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    for (const uint64_t value : {power - 1, power, power + 1, power | (power >> 3)}) {
      values.push_back(value);
    }
  }
  return values;
}

std::string Reference(uint64_t value) {
  std::string bytes;
  protozero::add_varint_to_buffer(&bytes, value);
  return bytes;
}

TEST(WireTest, VarintsAreWhatProtozeroWrites) {
  for (const uint64_t value : Values()) {
    char buffer[kMaxVarintBytes];
    const char* const end = WriteVarint(buffer, value);
    EXPECT_EQ(std::string(buffer, static_cast<size_t>(end - buffer)), Reference(value)) << value;
    EXPECT_EQ(VarintSize(value), Reference(value).size()) << value;
    std::string appended = "x";
    AppendVarint(value, &appended);
    EXPECT_EQ(appended, "x" + Reference(value)) << value;
  }
}

TEST(WireTest, VarintsAreReadBack) {
  for (const uint64_t value : Values()) {
    std::string bytes = Reference(value);
    const size_t size = bytes.size();
    uint64_t read = 1;
    EXPECT_EQ(ReadVarint(bytes.data(), bytes.data() + size, &read), bytes.data() + size);
    EXPECT_EQ(read, value);
    EXPECT_EQ(ReadVarint(bytes.data(), bytes.data() + size - 1, &read), nullptr) << value;
    bytes += std::string(8, '\xff');
    Spread spread;
    const char* const end = ReadSpread(bytes.data(), &spread);
    if (value < kSpreadLimit) {
      EXPECT_EQ(end, bytes.data() + size);
      EXPECT_EQ(FromSpread(spread), value);
      EXPECT_EQ(spread, ToSpread(value));
    } else {
      EXPECT_EQ(end, nullptr) << value;
    }
  }
}

TEST(WireTest, VarintsOfMoreThanTenBytesAreRefused) {
  const std::string bytes(11, '\x80');
  uint64_t value;
  EXPECT_EQ(ReadVarint(bytes.data(), bytes.data() + bytes.size(), &value), nullptr);
}

TEST(WireTest, SpreadNumbersSortAndAddLikeNumbers) {
  for (const uint64_t a : Values()) {
    if (a >= kSpreadLimit) continue;
    for (const uint64_t b : Values()) {
      if (b >= kSpreadLimit) continue;
      EXPECT_EQ(a < b, ToSpread(a) < ToSpread(b)) << a << " " << b;
      const Spread sum = AddSpread(ToSpread(a), ToSpread(b));
      if (a + b < kSpreadLimit) {
        EXPECT_EQ(FromSpread(sum), a + b);
      } else {
        EXPECT_LT(sum, ToSpread(a));
      }
    }
  }
}

}  // namespace
}  // namespace jobscope::xspace
