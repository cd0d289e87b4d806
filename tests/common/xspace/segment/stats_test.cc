// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tensorflow/xplane.pb.h"

namespace jobscope::xspace {
namespace {

using tensorflow::profiler::XEvent;
using tensorflow::profiler::XEventMetadata;
using tensorflow::profiler::XPlane;
using tensorflow::profiler::XStat;

TEST(StatsTest, EachTypeIsReadBack) {
  StatsEncoder stats(StatsOf::kEvent);
  stats.Int64(1, -5);
  stats.Int64(2, std::numeric_limits<int64_t>::min());
  stats.Uint64(3, std::numeric_limits<uint64_t>::max());
  stats.Double(4, -0.25);
  stats.String(5, "text");
  stats.Bytes(6, std::string_view("\0\xff", 2));
  stats.Ref(300, 70000);
  stats.Double(std::numeric_limits<uint64_t>::max() >> 1, 1e300);
  stats.String(7, std::string(300, 'x'));
  XEvent event;
  ASSERT_TRUE(event.ParseFromString(std::string(stats.bytes())));
  ASSERT_EQ(event.stats_size(), 9);
  EXPECT_EQ(event.stats(0).metadata_id(), 1);
  EXPECT_EQ(event.stats(0).int64_value(), -5);
  EXPECT_EQ(event.stats(1).int64_value(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(event.stats(2).uint64_value(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(event.stats(3).double_value(), -0.25);
  EXPECT_EQ(event.stats(4).str_value(), "text");
  EXPECT_EQ(event.stats(5).bytes_value(), std::string("\0\xff", 2));
  EXPECT_EQ(event.stats(6).metadata_id(), 300);
  EXPECT_EQ(event.stats(6).ref_value(), 70000U);
  EXPECT_EQ(event.stats(7).metadata_id(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(event.stats(7).double_value(), 1e300);
  EXPECT_EQ(event.stats(8).str_value().size(), 300U);
}

TEST(StatsTest, ZeroIsWrittenWithItsType) {
  StatsEncoder stats(StatsOf::kEvent);
  stats.Int64(1, 0);
  stats.Uint64(1, 0);
  stats.Double(1, 0);
  stats.String(1, "");
  XEvent event;
  ASSERT_TRUE(event.ParseFromString(std::string(stats.bytes())));
  ASSERT_EQ(event.stats_size(), 4);
  EXPECT_EQ(event.stats(0).value_case(), XStat::kInt64Value);
  EXPECT_EQ(event.stats(1).value_case(), XStat::kUint64Value);
  EXPECT_EQ(event.stats(2).value_case(), XStat::kDoubleValue);
  EXPECT_EQ(event.stats(3).value_case(), XStat::kStrValue);
}

TEST(StatsTest, NumbersThatJsonLacksAreTexts) {
  StatsEncoder stats(StatsOf::kEvent);
  stats.Double(1, std::nan(""));
  stats.Double(1, INFINITY);
  stats.Double(1, -INFINITY);
  stats.Double(1, std::numeric_limits<double>::max());
  XEvent event;
  ASSERT_TRUE(event.ParseFromString(std::string(stats.bytes())));
  ASSERT_EQ(event.stats_size(), 4);
  EXPECT_EQ(event.stats(0).str_value(), "nan");
  EXPECT_EQ(event.stats(1).str_value(), "inf");
  EXPECT_EQ(event.stats(2).str_value(), "-inf");
  EXPECT_EQ(event.stats(3).double_value(), std::numeric_limits<double>::max());
}

TEST(StatsTest, FieldNumberIsThatOfTheContainer) {
  StatsEncoder of_metadata(StatsOf::kEventMetadata);
  of_metadata.Int64(1, 2);
  XEventMetadata metadata;
  ASSERT_TRUE(metadata.ParseFromString(std::string(of_metadata.bytes())));
  ASSERT_EQ(metadata.stats_size(), 1);
  EXPECT_EQ(metadata.stats(0).int64_value(), 2);
  StatsEncoder of_plane(StatsOf::kPlane);
  of_plane.Int64(1, 3);
  XPlane plane;
  ASSERT_TRUE(plane.ParseFromString(std::string(of_plane.bytes())));
  ASSERT_EQ(plane.stats_size(), 1);
  EXPECT_EQ(plane.stats(0).int64_value(), 3);
}

TEST(StatsTest, WithoutNameNothingIsWritten) {
  StatsEncoder stats(StatsOf::kEvent);
  stats.Int64(0, 1);
  stats.Uint64(0, 1);
  stats.Double(0, 1);
  stats.Double(0, INFINITY);
  stats.String(0, "x");
  stats.Bytes(0, "x");
  stats.Ref(0, 1);
  stats.Ref(1, 0);
  EXPECT_EQ(stats.bytes(), "");
}

TEST(StatsTest, StringsBecomeUtf8AndBytesDoNot) {
  StatsEncoder stats(StatsOf::kEvent);
  stats.String(1, "a\xff");
  stats.Bytes(1, "a\xff");
  XEvent event;
  ASSERT_TRUE(event.ParseFromString(std::string(stats.bytes())));
  EXPECT_EQ(event.stats(0).str_value(), "a?");
  EXPECT_EQ(event.stats(1).bytes_value(), "a\xff");
  stats.Clear();
  EXPECT_EQ(stats.bytes(), "");
}

}  // namespace
}  // namespace jobscope::xspace
