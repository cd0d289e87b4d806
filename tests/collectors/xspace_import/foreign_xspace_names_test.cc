// SPDX-License-Identifier: Apache-2.0
//
// Names and stats of foreign planes in the trace.
#include "collectors/xspace_import/foreign_xspace_names.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/collectors/xspace_import/foreign_xspace_util.h"

namespace jobscope::framework {
namespace {

TEST(ForeignXSpaceNamesTest, CompilationsSayThatTheyAre) {
  XSpace space = SpaceOfTest();
  PlaneMaker host(space.add_planes(), "/host:CPU");
  XLine* const line = host.Line(-7, "x");
  host.Event(line, "backend_compile_and_load", 100, 50);
  host.Event(line, "tf.function-graph_building", 200, 50);
  host.Event(line, "backend_compile_and_load of something else", 300, 50);
  PlaneMaker device(space.add_planes(), "/device:TPU:0");
  device.Event(device.Line(1, "ops"), "XlaCompile", 100, 50);
  Merged merged;
  ASSERT_TRUE(merged.Merge(space).ok());
  merged.Read();
  EXPECT_EQ(merged.One("backend_compile_and_load").ints.at("compilation"), 1);
  EXPECT_EQ(merged.One("tf.function-graph_building").ints.at("compilation"), 1);
  EXPECT_EQ(merged.One("backend_compile_and_load of something else").ints.count("compilation"), 0u);
  EXPECT_EQ(merged.One("XlaCompile").ints.count("compilation"), 0u);
}

TEST(ForeignXSpaceNamesTest, StatsOfAllTypesAreKept) {
  XSpace space = SpaceOfTest();
  PlaneMaker host(space.add_planes(), "/host:CPU");
  XEvent* const event = host.Event(host.Line(-1, "x"), "e", 10, 5);
  const auto add = [&](const std::string& name) {
    auto* const stat = event->add_stats();
    stat->set_metadata_id(host.StatId(name));
    return stat;
  };
  add("int")->set_int64_value(-3);
  add("uint")->set_uint64_value(uint64_t{1} << 63);
  add("double")->set_double_value(0.25);
  add("string")->set_str_value("text");
  add("bytes")->set_bytes_value("\xff\x00");
  add("ref")->set_ref_value(static_cast<uint64_t>(host.StatId("interned")));
  auto& metadata = (*space.mutable_planes(1)->mutable_event_metadata())[event->metadata_id()];
  metadata.set_display_name("shown");
  auto* const of_all = metadata.add_stats();
  of_all->set_metadata_id(host.StatId("flops"));
  of_all->set_int64_value(12);
  Merged merged;
  ASSERT_TRUE(merged.Merge(space).ok());
  const XSpace& read = merged.Read();
  const ReadEvent one = merged.One("e");
  EXPECT_EQ(one.ints.at("int"), -3);
  EXPECT_EQ(static_cast<uint64_t>(one.ints.at("uint")), uint64_t{1} << 63);
  EXPECT_EQ(one.doubles.at("double"), 0.25);
  EXPECT_EQ(one.texts.at("string"), "text");
  EXPECT_EQ(one.texts.at("bytes"), "\xff");
  EXPECT_EQ(one.texts.at("ref"), "interned");
  for (const XPlane& plane : read.planes()) {
    for (const auto& [id, event_metadata] : plane.event_metadata()) {
      EXPECT_EQ(event_metadata.display_name(), "shown");
      ASSERT_EQ(event_metadata.stats_size(), 1);
      EXPECT_EQ(event_metadata.stats(0).int64_value(), 12);
    }
  }
}

TEST(ForeignXSpaceNamesTest, TextThatIsNotUtf8DoesNotSpoilTheTrace) {
  std::string bytes = [] {
    XSpace space = SpaceOfTest();
    PlaneMaker host(space.add_planes(), "/host:CPU");
    XEvent* const event = host.Event(host.Line(-1, "line #1"), "event #1", 10, 5);
    auto* const stat = event->add_stats();
    stat->set_metadata_id(host.StatId("stat #1"));
    stat->set_str_value("value #1");
    PlaneMaker metadata(space.add_planes(), "/host:metadata");
    (void)metadata.EventId("module #1");
    (void)metadata.StatId("Hlo Proto #1");
    space.add_warnings("warning #1");
    return space.SerializeAsString();
  }();
  for (char& c : bytes) {
    if (c == '#') c = '\xfe';
  }
  Merged merged;
  ASSERT_TRUE(merged->Merge(bytes, TimeOfTest(), {}).ok());
  const XSpace& read = merged.Read();
  EXPECT_EQ(merged.One("event ?1").texts.at("stat ?1"), "value ?1");
  EXPECT_EQ(merged.One("event ?1").line, "line ?1");
  ASSERT_EQ(merged.Planes("/host:metadata").size(), 1u);
  EXPECT_EQ(merged.Planes("/host:metadata")[0]->event_metadata().at(1000).name(), "module ?1");
  EXPECT_EQ(merged->account().warnings, std::vector<std::string>{"Frame: warning ?1"});
  EXPECT_EQ(read.warnings_size(), 1);  // that there is no summary
}

TEST(ForeignXSpaceNamesTest, ALongWarningIsCutBetweenCharacters) {
  constexpr size_t kMaxTextBytes = 500;
  const std::string character = "\xF0\x9F\x9A\x80";
  // In one of them the limit is between two characters.
  for (size_t before = 0; before < character.size(); ++before) {
    const std::string begin(before, 'x');
    XSpace space = SpaceOfTest();
    space.add_warnings(begin);
    for (int i = 0; i < 200; ++i) space.mutable_warnings(0)->append(character);
    Merged merged;
    ASSERT_TRUE(merged.Merge(space).ok());
    std::string expected = "Frame: " + begin;
    while (expected.size() + character.size() <= kMaxTextBytes) expected += character;
    EXPECT_EQ(merged->account().warnings, std::vector<std::string>{expected});
  }
}

}  // namespace
}  // namespace jobscope::framework
