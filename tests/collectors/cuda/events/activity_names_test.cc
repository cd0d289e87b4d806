// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/events/activity_names.h"

#include <gtest/gtest.h>

namespace jobscope::cuda {
namespace {

TEST(ActivityNamesTest, CopiesAreSpelledAsXProfReadsThem) {
  EXPECT_EQ(CopyName(1), "MemcpyHtoD");
  EXPECT_EQ(CopyName(2), "MemcpyDtoH");
  EXPECT_EQ(CopyName(8), "MemcpyDtoD");
  EXPECT_EQ(CopyName(10), "MemcpyDtoD");
  EXPECT_EQ(CopyName(200), "Memcpy");
  Activity copy;
  copy.bytes = 4096;
  copy.source_memory = 2;
  copy.destination_memory = 3;
  EXPECT_EQ(CopyDetails(copy), "num_bytes:4096\nfrom:pinned\nto:device\nasync:0");
  EXPECT_EQ(OverheadName(1), "driver compiler");
  EXPECT_EQ(OverheadName(7u << 16), "CUPTI buffer request");
  EXPECT_EQ(OverheadName(99u << 16), "overhead");
}

}  // namespace
}  // namespace jobscope::cuda
