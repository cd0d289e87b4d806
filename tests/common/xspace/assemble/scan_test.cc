// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tensorflow/xplane.pb.h"

namespace jobscope::xspace {
namespace {

using tensorflow::profiler::XPlane;
using tensorflow::profiler::XSpace;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

XSpace ForeignSpace() {
  XSpace space;
  XPlane* const host = space.add_planes();
  host->set_name("/host:CPU");
  for (int line = 0; line < 3; ++line) {
    auto* const added = host->add_lines();
    added->set_name("line");
    for (int event = 0; event < line * 10; ++event) added->add_events()->set_offset_ps(event);
  }
  XPlane* const environment = space.add_planes();
  environment->set_name("Task Environment");
  const auto add = [&](int64_t id, const std::string& name) {
    auto& metadata = (*environment->mutable_stat_metadata())[id];
    metadata.set_id(id);
    metadata.set_name(name);
    auto* const stat = environment->add_stats();
    stat->set_metadata_id(id);
    return stat;
  };
  add(7, "profile_start_time")->set_uint64_value(100);
  add(3, "profile_stop_time")->set_uint64_value(200);
  add(4, "another")->set_uint64_value(300);
  space.add_hostnames("node");
  space.add_errors("e");
  space.add_warnings("w1");
  space.add_warnings("w2");
  return space;
}

TEST(ScanTest, ReadsAForeignTrace) {
  const absl::StatusOr<XSpaceScan> scan = ScanXSpace(ForeignSpace().SerializeAsString());
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->planes, 2U);
  EXPECT_EQ(scan->lines, 3U);
  EXPECT_EQ(scan->events, 30U);
  EXPECT_THAT(scan->plane_names, ElementsAre("/host:CPU", "Task Environment"));
  EXPECT_THAT(scan->hostnames, ElementsAre("node"));
  EXPECT_THAT(scan->errors, ElementsAre("e"));
  EXPECT_THAT(scan->warnings, ElementsAre("w1", "w2"));
  EXPECT_EQ(scan->profile_start_time_ns, 100U);
  EXPECT_EQ(scan->profile_stop_time_ns, 200U);
  EXPECT_EQ(scan->summary, std::nullopt);
}

TEST(ScanTest, FindsTheSummaryWhereverItStands) {
  XSpace space = ForeignSpace();
  XPlane* const environment = space.mutable_planes(1);
  (*environment->mutable_stat_metadata())[99].set_name("jobscope_summary");
  auto* const stat = environment->add_stats();
  stat->set_metadata_id(99);
  stat->set_bytes_value("summary bytes");
  // In another order than protobuf writes: stats, then metadata, then the name.
  XPlane stats;
  stats.mutable_stats()->Swap(environment->mutable_stats());
  XPlane name;
  name.set_name(environment->name());
  environment->clear_name();
  const std::string plane =
      stats.SerializeAsString() + environment->SerializeAsString() + name.SerializeAsString();
  ASSERT_LT(plane.size(), 128U * 128U);
  std::string bytes("\x0a");
  bytes.push_back(static_cast<char>((plane.size() & 0x7f) | 0x80));
  bytes.push_back(static_cast<char>(plane.size() >> 7));
  const absl::StatusOr<XSpaceScan> scan = ScanXSpace(bytes + plane);
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->summary, "summary bytes");
  EXPECT_EQ(scan->profile_start_time_ns, 100U);
}

TEST(ScanTest, NothingIsAnEmptyTrace) {
  const absl::StatusOr<XSpaceScan> scan = ScanXSpace("");
  ASSERT_TRUE(scan.ok());
  EXPECT_EQ(scan->planes, 0U);
  EXPECT_EQ(scan->profile_start_time_ns, std::nullopt);
}

TEST(ScanTest, ATraceThatWasCutOffIsAnError) {
  const std::string bytes = ForeignSpace().SerializeAsString();
  XSpace first;
  *first.add_planes() = ForeignSpace().planes(0);
  // Cuts between fields of the space leave a shorter, valid trace: everywhere inside of the first
  // plane is an error.
  for (size_t size = 1; size < first.ByteSizeLong(); ++size) {
    const absl::StatusOr<XSpaceScan> scan = ScanXSpace(std::string_view(bytes).substr(0, size));
    ASSERT_FALSE(scan.ok()) << size;
    EXPECT_THAT(std::string(scan.status().message()), HasSubstr("the file was cut off"));
  }
}

TEST(ScanTest, SomethingElseIsAnError) {
  EXPECT_FALSE(ScanXSpace("<html><body>404</body></html>").ok());
  EXPECT_FALSE(ScanXSpace(std::string(100, '\0')).ok());
  EXPECT_FALSE(ScanXSpace(std::string(100, '\xff')).ok());
}

TEST(ScanTest, TextsAreBounded) {
  XSpace space;
  for (size_t i = 0; i < kMaxScanTexts + 10; ++i) space.add_warnings("w");
  space.add_errors(std::string(kMaxScanTextBytes + 10, 'e'));
  space.add_errors(std::string(kMaxScanTextBytes - 1, 'e') + "\u00e9");
  const absl::StatusOr<XSpaceScan> scan = ScanXSpace(space.SerializeAsString());
  ASSERT_TRUE(scan.ok());
  EXPECT_EQ(scan->warnings.size(), kMaxScanTexts);
  EXPECT_EQ(scan->errors[0].size(), kMaxScanTextBytes);
  EXPECT_EQ(scan->errors[1], std::string(kMaxScanTextBytes - 1, 'e')) << "cut between characters";
}

TEST(ScanTest, AHugeSummaryIsNone) {
  for (const size_t bytes : {kMaxScanSummaryBytes, kMaxScanSummaryBytes + 1}) {
    XSpace space;
    auto* const plane = space.add_planes();
    plane->set_name("Task Environment");
    (*plane->mutable_stat_metadata())[1].set_name("jobscope_summary");
    auto* const stat = plane->add_stats();
    stat->set_metadata_id(1);
    stat->set_bytes_value(std::string(bytes, 's'));
    const absl::StatusOr<XSpaceScan> scan = ScanXSpace(space.SerializeAsString());
    ASSERT_TRUE(scan.ok()) << scan.status();
    EXPECT_EQ(scan->summary.has_value(), bytes == kMaxScanSummaryBytes);
  }
}

TEST(ScanTest, WrongWireTypesAreSkippedAsProtobufDoes) {
  // planes, errors, warnings and hostnames as varints.
  const absl::StatusOr<XSpaceScan> scan = ScanXSpace("\x08\x01\x10\x01\x18\x01\x20\x01");
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->planes, 0U);
}

}  // namespace
}  // namespace jobscope::xspace
