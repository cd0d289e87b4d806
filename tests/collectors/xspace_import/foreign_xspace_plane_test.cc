// SPDX-License-Identifier: Apache-2.0
//
// Merges planes without lines.
#include "collectors/xspace_import/foreign_xspace_plane.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/collectors/xspace_import/foreign_xspace_util.h"

namespace jobscope::framework {
namespace {

TEST(ForeignXSpacePlaneTest, PlanesWithoutLinesAreCopiedWithTheirIds) {
  const auto with_modules = [](int count) {
    XSpace space = SpaceOfTest();
    PlaneMaker metadata(space.add_planes(), "/host:metadata");
    for (int i = 0; i < count; ++i) {
      auto& module = (*space.mutable_planes(1)->mutable_event_metadata())[77 + i];
      module.set_id(77 + i);
      module.set_name("jit_step");
      auto* const stat = module.add_stats();
      stat->set_metadata_id(metadata.StatId("Hlo Proto"));
      stat->set_bytes_value(std::string(1000, '\xff'));
    }
    return space;
  };
  Merged merged;
  ASSERT_TRUE(merged.Merge(with_modules(1)).ok());
  ASSERT_TRUE(merged.Merge(with_modules(3)).ok());
  ASSERT_TRUE(merged.Merge(with_modules(2)).ok());
  merged.Read();
  ASSERT_EQ(merged.Planes("/host:metadata").size(), 1u);
  const XPlane& plane = *merged.Planes("/host:metadata")[0];
  EXPECT_EQ(plane.event_metadata_size(), 3);
  EXPECT_EQ(plane.event_metadata().at(79).stats(0).bytes_value().size(), 1000u);
}

TEST(ForeignXSpacePlaneTest, APlaneTooLargeForAMessageIsCopiedInPart) {
  XSpace space = SpaceOfTest();
  PlaneMaker metadata(space.add_planes(), "/host:metadata");
  const auto add = [&](int64_t id, size_t bytes) {
    auto& module = (*space.mutable_planes(1)->mutable_event_metadata())[id];
    module.set_id(id);
    module.set_metadata(std::string(bytes, 'x'));
  };
  add(1, 100);
  add(2, ForeignXSpace::kMaxRawPlaneBytes);
  add(3, 100);
  Merged merged({}, size_t{128} << 20);
  ASSERT_TRUE(merged.Merge(space).ok());
  merged.Read();
  ASSERT_EQ(merged.Planes("/host:metadata").size(), 1u);
  EXPECT_EQ(merged.Planes("/host:metadata")[0]->event_metadata_size(), 2);
  ASSERT_EQ(merged->account().warnings.size(), 1u);
  EXPECT_NE(merged->account().warnings[0].find("1 entries"), std::string::npos);
}

TEST(ForeignXSpacePlaneTest, TheBytesOfAllCopiedPlanesAreBounded) {
  XSpace space;
  space.add_planes()->set_name("#");
  (*space.mutable_planes(0)->mutable_event_metadata())[1].set_metadata(
      std::string(size_t{30} << 20, 'x'));
  const std::string bytes = space.SerializeAsString();
  Merged merged({}, size_t{256} << 20);
  for (const char name : {'a', 'b', '\xff'}) {
    std::string named = bytes;
    named[bytes.find('#')] = name;
    ASSERT_TRUE(merged->Merge(named, TimeOfTest(), {}).ok());
  }
  merged.Read();
  EXPECT_EQ(merged.Planes("a").size() + merged.Planes("b").size(), 2u);
  EXPECT_EQ(merged.Planes("?").size(), 0u);
  // The warning is valid UTF-8 even if the name of the plane is not.
  ASSERT_EQ(merged->account().warnings.size(), 1u);
  EXPECT_NE(merged->account().warnings[0].find("plane ? was left out"), std::string::npos)
      << merged->account().warnings[0];
}

}  // namespace
}  // namespace jobscope::framework
