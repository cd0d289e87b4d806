// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/xspace/names.h"
#include "common/xspace/segment.h"
#include "common/xspace/stats.h"
#include "common/xspace/store.h"
#include "tests/xspace/trace_util.h"

namespace jobscope::xspace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kStoreBytes = size_t{16} << 20;

class AssemblerTest : public ::testing::Test {
 protected:
  AssemblerTest() : store_(kStoreBytes), names_(&store_), host_(names_.Plane("/host:CPU", 3)) {}

  // An event called like its id in the name table of the host plane.
  void Add(SegmentBuilder* builder, std::string_view name, int64_t start_ps, int64_t duration_ps) {
    SegmentEvent event;
    event.start_ps = start_ps;
    event.duration_ps = duration_ps;
    event.metadata_id = names_.Event(host_, name);
    builder->Add(event);
  }

  void AddSummary(const v1::Summary& summary) {
    ASSERT_TRUE(store_.Append(ItemKind::kSummary, summary.SerializeAsString()));
  }

  Store store_;
  Names names_;
  const PlaneKey host_;
};

std::vector<std::string> EventNames(const XPlane& plane, const XLine& line) {
  std::vector<std::string> names;
  for (const auto& event : line.events()) {
    names.push_back(plane.event_metadata().at(event.metadata_id()).name());
  }
  return names;
}

TEST_F(AssemblerTest, WritesPlanesLinesNamesAndEvents) {
  const int64_t line = names_.Line(host_, 42, "main");
  SegmentBuilder builder(&store_, host_, line, 1);
  Add(&builder, "child", 20, 5);
  Add(&builder, "parent", 10, 50);
  builder.Flush();
  v1::Summary summary;
  summary.set_zero_unix_ns(1'700'000'000'000'000'000);
  summary.set_duration_ns(2'000'000);
  summary.add_errors("no GPU");
  AddSummary(summary);

  AssembleOptions options;
  options.hostname = "node1_6009";
  const XSpace space = AssembleOne(store_.Items(), options);
  EXPECT_THAT(space.hostnames(), ElementsAre("node1_6009"));
  EXPECT_THAT(space.errors(), ElementsAre("no GPU"));
  EXPECT_EQ(space.warnings_size(), 0);
  const XPlane* const plane = FindPlane(space, "/host:CPU");
  ASSERT_NE(plane, nullptr);
  EXPECT_EQ(plane->id(), 3);
  ASSERT_EQ(plane->lines_size(), 1);
  EXPECT_EQ(plane->lines(0).id(), 42);
  EXPECT_EQ(plane->lines(0).name(), "main");
  EXPECT_EQ(plane->lines(0).timestamp_ns(), 0);
  EXPECT_EQ(plane->lines(0).duration_ps(), 60);
  EXPECT_THAT(EventNames(*plane, plane->lines(0)), ElementsAre("parent", "child"));
  EXPECT_EQ(plane->lines(0).events(0).offset_ps(), 10);
  EXPECT_EQ(plane->lines(0).events(0).duration_ps(), 50);

  const XPlane* const environment = FindPlane(space, "Task Environment");
  ASSERT_NE(environment, nullptr);
  std::map<std::string, tensorflow::profiler::XStat> stats;
  for (const auto& stat : environment->stats()) {
    stats[environment->stat_metadata().at(stat.metadata_id()).name()] = stat;
  }
  EXPECT_EQ(stats["profile_start_time"].uint64_value(), 1'700'000'000'000'000'000U);
  EXPECT_EQ(stats["profile_stop_time"].uint64_value(), 1'700'000'000'002'000'000U);
  EXPECT_EQ(stats["jobscope_summary"].bytes_value(), summary.SerializeAsString());
}

}  // namespace
}  // namespace jobscope::xspace
