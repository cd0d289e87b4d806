// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvml/visible_devices.h"

#include <gtest/gtest.h>

#include <string>

namespace jobscope::nvml {
namespace {

std::string Parsed(const std::optional<std::string>& text) {
  const auto devices = ParseVisibleDevices(text);
  if (!devices.has_value()) return "all";
  std::string joined;
  for (const VisibleDevice& device : *devices) {
    joined += (joined.empty() ? "" : " ") +
              (device.index.has_value() ? std::to_string(*device.index) : device.uuid);
  }
  return joined;
}

TEST(VisibleDevicesTest, ReadsWhatCudaReads) {
  EXPECT_EQ(Parsed(std::nullopt), "all");
  EXPECT_EQ(Parsed(""), "");
  EXPECT_EQ(Parsed("0"), "0");
  EXPECT_EQ(Parsed("3,1, 2"), "3 1 2");
  EXPECT_EQ(Parsed("GPU-8f6,MIG-1a2b"), "GPU-8f6 MIG-1a2b");
  // What it does not know ends the list.
  EXPECT_EQ(Parsed("-1"), "");
  EXPECT_EQ(Parsed("1,-1,2"), "1");
  EXPECT_EQ(Parsed("NoDevFiles"), "");
  EXPECT_EQ(Parsed("0,,1"), "0");
  EXPECT_EQ(Parsed("99999999999999999999"), "");
}

TEST(VisibleDevicesTest, AListOfForeignOriginIsBounded) {
  std::string text = "0";
  for (int i = 0; i < 10'000; ++i) text += ",1";
  EXPECT_LE(ParseVisibleDevices(text)->size(), 256u);
}

TEST(VisibleDevicesTest, OldNamesOfInstancesNameTheirGpu) {
  EXPECT_EQ(GpuOfOldMigName("MIG-GPU-8f6d/1/0"), "GPU-8f6d");
  EXPECT_EQ(GpuOfOldMigName("MIG-8f6d"), "MIG-8f6d");
  EXPECT_EQ(GpuOfOldMigName("GPU-8f6d"), "GPU-8f6d");
}

}  // namespace
}  // namespace jobscope::nvml
