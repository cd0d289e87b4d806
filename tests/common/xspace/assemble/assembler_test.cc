// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"
#include "common/xspace/segment/stats.h"
#include "tests/common/xspace/assemble/assembled_session.h"
#include "tests/common/xspace/assemble/trace_util.h"

namespace jobscope::xspace {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using AssemblerTest = AssembledSessionTest;

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

// Viewers call a process by its file, which is called by a port.
TEST_F(AssemblerTest, ARankStandsBehindTheNamesOfThreads) {
  const PlaneKey gpu = names_.Plane("/device:GPU:0", 4);
  for (const auto& [plane, name] :
       {std::pair(host_, "main"), std::pair(host_, "_counters_"), std::pair(gpu, "Stream #7")}) {
    SegmentBuilder builder(&store_, plane, names_.Line(plane, name[0], name), 1);
    SegmentEvent event;
    event.metadata_id = names_.Event(plane, "event");
    builder.Add(event);
    builder.Flush();
  }
  const auto names = [this](const AssembleOptions& options) {
    const XSpace space = AssembleOne(store_.Items(), options);
    std::vector<std::string> shown;
    for (const char* plane : {"/host:CPU", "/device:GPU:0"}) {
      for (const auto& line : FindPlane(space, plane)->lines()) {
        // A reader that looks for a line by its name finds it.
        EXPECT_THAT(line.name(), AnyOf("main", "_counters_", "Stream #7"));
        shown.push_back(line.display_name());
      }
    }
    return shown;
  };
  EXPECT_THAT(names({}), ElementsAre("", "", ""));
  // Of a worker that was killed; and as it says itself.
  AssembleOptions options;
  options.rank = 4;
  EXPECT_THAT(names(options), ElementsAre("main [rank 4]", "", ""));
  v1::Summary summary;
  summary.mutable_identity()->set_has_rank(true);
  summary.mutable_identity()->set_rank(5);
  AddSummary(summary);
  EXPECT_THAT(names({}), ElementsAre("main [rank 5]", "", ""));
}

TEST_F(AssemblerTest, NoItemsGiveAnEmptyTraceThatSaysWhy) {
  const XSpace space = AssembleOne({});
  EXPECT_EQ(space.planes_size(), 0);
  EXPECT_THAT(space.warnings(), ElementsAre(HasSubstr("no summary")));
}

TEST_F(AssemblerTest, LossesBecomeWarningsWithARemedy) {
  v1::Summary summary;
  summary.set_attempted(1000);
  summary.set_lost(30);
  const auto lose = [&](const std::string& cause, uint64_t events) {
    v1::LossByCause* const loss = summary.add_lost_by_cause();
    loss->set_cause(cause);
    loss->set_events(events);
  };
  lose("overwritten", 10);
  lose("store_full", 15);
  lose("something new", 5);
  lose("no_ring", 0);
  summary.add_warnings("of the summary");
  summary.set_truncated(true);
  summary.set_ended_by("shutdown");
  summary.set_duration_ns(123'000'000);
  AddSummary(summary);
  const XSpace space = AssembleOne(store_.Items());
  EXPECT_THAT(
      space.warnings(),
      ElementsAre(
          AllOf(HasSubstr("10 of 1000 events lost (overwritten)"), HasSubstr("ring_records")),
          AllOf(HasSubstr("15 of 1000 events lost (store_full)"), HasSubstr("JOBSCOPE_STORE_MB")),
          HasSubstr("5 of 1000 events lost (something new)"), "of the summary",
          AllOf(HasSubstr("ended before its planned end (shutdown)"), HasSubstr("123 ms"))));
}

TEST_F(AssemblerTest, WithoutSummaryTheLastLossOfEachCollectorIsReported) {
  for (const auto& [collector, events] :
       {std::pair{"host", 3}, std::pair{"cuda", 4}, std::pair{"host", 10}}) {
    v1::Loss loss;
    loss.set_collector(collector);
    loss.add_causes()->set_cause("overwritten");
    loss.mutable_causes(0)->set_events(static_cast<uint64_t>(events));
    ASSERT_TRUE(store_.Append(ItemKind::kLoss, loss.SerializeAsString()));
  }
  const XSpace space = AssembleOne(store_.Items());
  EXPECT_THAT(space.warnings(),
              ElementsAre(HasSubstr("14 events lost (overwritten)"), HasSubstr("no summary")));
}

TEST_F(AssemblerTest, ClocksStandInTheEnvironment) {
  for (const uint64_t ticks : {7U, 8U}) {
    v1::Clock clock;
    clock.set_ticks(ticks);
    ASSERT_TRUE(store_.Append(ItemKind::kClock, clock.SerializeAsString()));
  }
  const XSpace space = AssembleOne(store_.Items());
  const XPlane* const environment = FindPlane(space, "Task Environment");
  ASSERT_NE(environment, nullptr);
  ASSERT_EQ(environment->stats_size(), 2);
  v1::Clock second;
  ASSERT_TRUE(second.ParseFromString(environment->stats(1).bytes_value()));
  EXPECT_EQ(second.ticks(), 8U);
  EXPECT_EQ(environment->stat_metadata().at(environment->stats(1).metadata_id()).name(),
            "jobscope_clock");
}

TEST_F(AssemblerTest, ASessionsOwnTaskEnvironmentIsJoined) {
  const PlaneKey own = names_.Plane("Task Environment", 9);
  StatsEncoder stats(StatsOf::kPlane);
  stats.String(names_.Stat(own, "driver"), "535");
  ASSERT_TRUE(names_.AddPlaneStats(own, stats.bytes()));
  v1::Summary summary;
  summary.set_zero_unix_ns(5);
  AddSummary(summary);
  const XSpace space = AssembleOne(store_.Items());
  const XPlane* const environment = FindPlane(space, "Task Environment");
  ASSERT_NE(environment, nullptr);
  ASSERT_EQ(environment->stats_size(), 4);
  EXPECT_EQ(environment->stat_metadata().at(environment->stats(0).metadata_id()).name(), "driver");
  EXPECT_EQ(environment->stat_metadata().at(environment->stats(1).metadata_id()).name(),
            "profile_start_time");
}

TEST_F(AssemblerTest, HostnameBecomesUtf8) {
  AssembleOptions options;
  options.hostname = "n\xff";
  EXPECT_THAT(AssembleOne({}, options).hostnames(), ElementsAre("n?"));
}

// R2: several sources write to one line; R3: sorted whatever the order of items.
TEST_F(AssemblerTest, SegmentsOfALineAreMerged) {
  const int64_t line = names_.Line(host_, 42, "main");
  SegmentBuilder first(&store_, host_, line, 1);
  SegmentBuilder second(&store_, host_, line, 2);
  Add(&first, "b", 20, 5);
  Add(&first, "d", 40, 5);
  first.Flush();
  Add(&second, "c", 30, 5);
  Add(&second, "a", 10, 100);
  second.Flush();
  Add(&first, "e", 50, 5);
  first.Flush();
  const XSpace space = AssembleOne(store_.Items());
  const XPlane* const plane = FindPlane(space, "/host:CPU");
  ASSERT_EQ(plane->lines_size(), 1);
  EXPECT_THAT(EventNames(*plane, plane->lines(0)), ElementsAre("a", "b", "c", "d", "e"));
}

// A parent completes after its children, so of two events that look the same the later one is the
// parent.
TEST_F(AssemblerTest, OfEqualEventsTheLaterItemsGoesFirst) {
  const int64_t line = names_.Line(host_, 42, "main");
  SegmentBuilder builder(&store_, host_, line, 1);
  for (const char* name : {"child", "parent", "grandparent"}) {
    Add(&builder, name, 10, 5);
    builder.Flush();
  }
  const XSpace space = AssembleOne(store_.Items());
  const XPlane* const plane = FindPlane(space, "/host:CPU");
  EXPECT_THAT(EventNames(*plane, plane->lines(0)), ElementsAre("grandparent", "parent", "child"));
}

// Equal starts across the border of two segments: the longer one must not follow because its
// segment does.
TEST_F(AssemblerTest, ALongerEventOfTheNextSegmentGoesFirst) {
  const int64_t line = names_.Line(host_, 42, "main");
  SegmentBuilder builder(&store_, host_, line, 1);
  Add(&builder, "child", 10, 5);
  builder.Flush();
  Add(&builder, "parent", 10, 50);
  builder.Flush();
  const XSpace space = AssembleOne(store_.Items());
  const XPlane* const plane = FindPlane(space, "/host:CPU");
  EXPECT_THAT(EventNames(*plane, plane->lines(0)), ElementsAre("parent", "child"));
}

// R8: XProf shows no steps beside a GPU plane without events. Other planes stay.
TEST_F(AssemblerTest, GpuPlanesWithoutEventsAreLeftOut) {
  const PlaneKey gpu = names_.Plane("/device:GPU:0", 1);
  names_.Line(gpu, 7, "Stream #7");
  names_.Event(gpu, "kernel");
  names_.Plane("/device:CUSTOM:0", 2);
  const XSpace space = AssembleOne(store_.Items());
  EXPECT_EQ(FindPlane(space, "/device:GPU:0"), nullptr);
  EXPECT_NE(FindPlane(space, "/host:CPU"), nullptr);
  EXPECT_NE(FindPlane(space, "/device:CUSTOM:0"), nullptr);
}

bool HasStat(const XPlane& plane, const std::string& name) {
  return std::any_of(plane.stat_metadata().begin(), plane.stat_metadata().end(),
                     [&](const auto& entry) { return entry.second.name() == name; });
}

// XProf takes the device_id of a launch for an index into the GPU planes of the file.
TEST_F(AssemblerTest, APartThatLacksAGpuPlaneHasNoIndexOfThem) {
  names_.Stat(host_, "device_id");
  SegmentBuilder host(&store_, host_, names_.Line(host_, 1, "main"), 1);
  for (int64_t i = 0; i < 20'000; ++i) Add(&host, "step", i * 1'000'000, 900'000);
  host.Flush();
  for (const int64_t last_ps : {int64_t{2000}, int64_t{19'999'000'000}}) {
    const std::string name = last_ps == 2000 ? "/device:GPU:0" : "/device:GPU:1";
    const PlaneKey gpu = names_.Plane(name, 1);
    names_.Stat(gpu, "device_id");
    SegmentBuilder device(&store_, gpu, names_.Line(gpu, 7, "Stream #7"), 1);
    SegmentEvent kernel;
    kernel.duration_ps = 10;
    kernel.metadata_id = names_.Event(gpu, "kernel");
    for (const int64_t start_ps : {int64_t{1000}, last_ps}) {
      kernel.start_ps = start_ps;
      device.Add(kernel);
    }
    device.Flush();
  }
  AssembleOptions options;
  options.part_limit_bytes = uint64_t{64} << 10;
  const std::vector<XSpace> parts = AssembleAll(store_.Items(), options);
  ASSERT_GT(parts.size(), 2U);
  ASSERT_NE(FindPlane(parts.front(), "/device:GPU:0"), nullptr);
  EXPECT_TRUE(HasStat(*FindPlane(parts.front(), "/host:CPU"), "device_id"));
  ASSERT_EQ(FindPlane(parts.back(), "/device:GPU:0"), nullptr);
  EXPECT_FALSE(HasStat(*FindPlane(parts.back(), "/host:CPU"), "device_id"));
  EXPECT_TRUE(HasStat(*FindPlane(parts.back(), "/host:CPU"), "gpu_index"));
  EXPECT_TRUE(HasStat(*FindPlane(parts.back(), "/device:GPU:1"), "device_id"));
}

// R8 holds in each part.
TEST_F(AssemblerTest, AGpuPlaneIsOnlyInPartsThatHoldItsEvents) {
  const PlaneKey gpu = names_.Plane("/device:GPU:0", 1);
  SegmentBuilder host(&store_, host_, names_.Line(host_, 1, "main"), 1);
  for (int64_t i = 0; i < 20'000; ++i) Add(&host, "step", i * 1'000'000, 900'000);
  host.Flush();
  SegmentBuilder device(&store_, gpu, names_.Line(gpu, 7, "Stream #7"), 1);
  SegmentEvent kernel;
  kernel.start_ps = 1000;
  kernel.duration_ps = 10;
  kernel.metadata_id = names_.Event(gpu, "kernel");
  device.Add(kernel);
  device.Flush();
  AssembleOptions options;
  options.part_limit_bytes = uint64_t{64} << 10;
  const std::vector<XSpace> parts = AssembleAll(store_.Items(), options);
  ASSERT_GT(parts.size(), 2U);
  EXPECT_NE(FindPlane(parts.front(), "/device:GPU:0"), nullptr);
  EXPECT_EQ(FindPlane(parts.back(), "/device:GPU:0"), nullptr);
  EXPECT_THAT(parts.back().warnings(), Contains(HasSubstr("of a trace that was cut by time")));
}

TEST_F(AssemblerTest, NamesAloneMayExceedTheLimit) {
  for (int i = 0; i < 5000; ++i) names_.Event(host_, "a rather long name " + std::to_string(i));
  SegmentBuilder host(&store_, host_, names_.Line(host_, 1, "main"), 1);
  for (int64_t i = 0; i < 100; ++i) Add(&host, "step", i * 1'000'000, 900'000);
  host.Flush();
  AssembleOptions options;
  options.part_limit_bytes = uint64_t{64} << 10;
  const std::vector<XSpace> parts = AssembleAll(store_.Items(), options);
  EXPECT_LE(parts.size(), 100U);
  for (const XSpace& part : parts) {
    EXPECT_EQ(FindPlane(part, "/host:CPU")->event_metadata_size(), 5001);
  }
}

TEST_F(AssemblerTest, EqualStartsStayTogether) {
  SegmentBuilder host(&store_, host_, names_.Line(host_, 1, "main"), 1);
  for (int64_t i = 0; i < 10'000; ++i) Add(&host, "same", 500, 1);
  Add(&host, "before", 100, 1);
  Add(&host, "after", 900, 1);
  host.Flush();
  AssembleOptions options;
  options.part_limit_bytes = uint64_t{64} << 10;
  const std::vector<XSpace> parts = AssembleAll(store_.Items(), options);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(FindPlane(parts[1], "/host:CPU")->lines(0).events_size(), 10'000);
}

// A line whose segments follow each other is passed on by reference, whole segments at a time.
TEST_F(AssemblerTest, SortedSegmentsAreNotCopied) {
  SegmentBuilder host(&store_, host_, names_.Line(host_, 1, "main"), 1);
  for (int64_t i = 0; i < 50'000; ++i) Add(&host, "step", i * 1'000'000, 900'000);
  host.Flush();
  const absl::StatusOr<Assembler> assembler = Assembler::Create(store_.Items(), {});
  ASSERT_TRUE(assembler.ok());
  StringSink sink;
  ASSERT_TRUE(assembler->Write(0, &sink).ok());
  EXPECT_GT(sink.stable_bytes, 600'000U);
  EXPECT_LT(sink.copied_bytes, 10'000U);
}

TEST_F(AssemblerTest, TheFirstErrorOfTheSinkEndsIt) {
  class FailingSink : public ByteSink {
   public:
    absl::Status Write(std::string_view bytes, bool) override {
      ++calls;
      left -= static_cast<int64_t>(bytes.size());
      return left < 0 ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
    }
    int64_t left = 100'000;
    int calls = 0;
  };
  SegmentBuilder host(&store_, host_, names_.Line(host_, 1, "main"), 1);
  for (int64_t i = 0; i < 50'000; ++i) Add(&host, "step", i * 1'000'000, 900'000);
  host.Flush();
  const absl::StatusOr<Assembler> assembler = Assembler::Create(store_.Items(), {});
  ASSERT_TRUE(assembler.ok());
  FailingSink sink;
  const absl::Status status = assembler->Write(0, &sink);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LE(sink.calls, 4);
  EXPECT_EQ(assembler->Write(1, &sink).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(AssemblerTest, CanBeMoved) {
  absl::StatusOr<Assembler> first = Assembler::Create({}, {});
  absl::StatusOr<Assembler> second = Assembler::Create({}, {});
  ASSERT_TRUE(first.ok() && second.ok());
  Assembler moved = *std::move(first);
  moved = *std::move(second);
  EXPECT_EQ(moved.parts().size(), 1U);
}

}  // namespace
}  // namespace jobscope::xspace
