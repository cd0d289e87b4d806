// SPDX-License-Identifier: Apache-2.0
//
// Planes of frameworks in an assembled trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/xspace/assemble/assembler.h"
#include "common/xspace/segment/segment.h"
#include "common/xspace/segment/store.h"
#include "tests/common/xspace/assemble/assembled_session.h"
#include "tests/common/xspace/assemble/trace_util.h"

namespace jobscope::xspace {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class RawPlaneAssemblyTest : public AssembledSessionTest {
 protected:
  void AddRaw(const std::string& name, int events) {
    XPlane plane;
    plane.set_name(name);
    XLine* const line = plane.add_lines();
    for (int i = 0; i < events; ++i) line->add_events()->set_metadata_id(1);
    (*plane.mutable_event_metadata())[1].set_name("op");
    v1::RawPlane item;
    item.set_plane(plane.SerializeAsString());
    ASSERT_TRUE(store_.Append(ItemKind::kRawPlane, item.SerializeAsString()));
  }
};

TEST_F(RawPlaneAssemblyTest, PassesAsItIs) {
  AddRaw("/host:metadata", 3);
  const XSpace space = AssembleOne(store_.Items());
  const XPlane* const plane = FindPlane(space, "/host:metadata");
  ASSERT_NE(plane, nullptr);
  EXPECT_EQ(plane->lines(0).events_size(), 3);
}

// R1: of two planes with one name, XProf analyses the first.
TEST_F(RawPlaneAssemblyTest, TheLaterOfTwoWithOneNameIsRenamed) {
  AddRaw("/host:CPU", 1);
  AddRaw("/host:metadata", 1);
  AddRaw("/host:metadata", 2);
  AddRaw("/host:metadata", 3);
  const XSpace space = AssembleOne(store_.Items());
  EXPECT_EQ(FindPlane(space, "/host:CPU")->id(), 3);
  EXPECT_NE(FindPlane(space, "/host:CPU (2)"), nullptr);
  EXPECT_EQ(FindPlane(space, "/host:metadata")->lines(0).events_size(), 1);
  EXPECT_EQ(FindPlane(space, "/host:metadata (2)")->lines(0).events_size(), 2);
  EXPECT_EQ(FindPlane(space, "/host:metadata (3)")->lines(0).events_size(), 3);
  EXPECT_THAT(space.warnings(), Contains(HasSubstr("renamed to /host:CPU (2)")));
}

// A worker that sends nothing else costs its client no hours: tried against each other, these are
// 800 million names.
TEST_F(RawPlaneAssemblyTest, FortyThousandPlanesOfOneNameAreNamedInNoTime) {
  constexpr int kPlanes = 40'000;
  for (int i = 0; i < kPlanes; ++i) AddRaw("/host:metadata", 1);
  const std::vector<ItemView> items = store_.Items();
  const auto assembler = Assembler::Create(items, {});
  ASSERT_TRUE(assembler.ok()) << assembler.status();
  EXPECT_EQ(assembler->events(), static_cast<uint64_t>(kPlanes));
}

// A second GPU plane would be analysed as one more GPU.
TEST_F(RawPlaneAssemblyTest, ADevicePlaneIsRenamedToACustomOne) {
  AddRaw("/device:GPU:0", 1);
  AddRaw("/device:GPU:0", 2);
  AddRaw("/device:GPU:1", 0);
  const XSpace space = AssembleOne(store_.Items());
  EXPECT_NE(FindPlane(space, "/device:GPU:0"), nullptr);
  EXPECT_NE(FindPlane(space, "/device:CUSTOM:GPU:0 (2)"), nullptr);
  EXPECT_EQ(FindPlane(space, "/device:GPU:1"), nullptr);
}

TEST_F(RawPlaneAssemblyTest, TheFrameworksTaskEnvironmentGivesWay) {
  AddRaw("Task Environment", 0);
  AddSummary(v1::Summary());
  const XSpace space = AssembleOne(store_.Items());
  EXPECT_EQ(FindPlane(space, "Task Environment")->stats_size(), 3);
  EXPECT_NE(FindPlane(space, "Task Environment (2)"), nullptr);
}

TEST_F(RawPlaneAssemblyTest, StandsInTheFirstPartOnly) {
  SegmentBuilder host(&store_, host_, names_.Line(host_, 1, "main"), 1);
  for (int64_t i = 0; i < 20'000; ++i) Add(&host, "step", i * 1'000'000, 900'000);
  host.Flush();
  AddRaw("/host:metadata", 10'000);
  AssembleOptions options;
  options.part_limit_bytes = uint64_t{64} << 10;
  const std::vector<XSpace> parts = AssembleAll(store_.Items(), options);
  ASSERT_GT(parts.size(), 3U);
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(FindPlane(parts[i], "/host:metadata") != nullptr, i == 0);
    EXPECT_LE(parts[i].ByteSizeLong(), options.part_limit_bytes);
  }
}

}  // namespace
}  // namespace jobscope::xspace
