// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/events/event_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/collectors/cuda/events/writer_rig.h"
#include "tests/collectors/gated_sink.h"

namespace jobscope::cuda {
namespace {

using ::testing::Contains;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Ticks are nanoseconds.
class EventWriterTest : public ::testing::Test {
 protected:
  EventWriterTest() {
    window_.map = TickMap().WithZero(0);
    (void)kernels_.Find("_Z3addv");  // 0: the name of all kernels here
  }

  // Writes one event to each kind of line, and another one to a second lane of the stream.
  void WriteAll(uint64_t begin) {
    writer_.Device(At(ActivityType::kKernel, begin), nullptr);
    writer_.Device(At(ActivityType::kSet, begin + 5), nullptr);
    writer_.Api(At(ActivityType::kApi, begin), nullptr, nullptr);
    writer_.Memory(At(ActivityType::kMemory, begin));
    writer_.Other(At(ActivityType::kSync, begin));
  }
  tensorflow::profiler::XSpace Read() {
    writer_.Flush();
    return SpaceOf(store_);
  }

  xspace::Store store_{16 << 20};
  GatedSink sink_{&store_};
  xspace::Names names_{&sink_};
  const CuptiApi api_{};
  ApiCalls calls_{&api_};
  KernelNames kernels_;
  ThreadNames threads_;
  Window window_;
  EventWriter writer_{&sink_, &names_, &calls_, &kernels_, &threads_, &window_};
};

// The store is full while the first events come, and has room again for the second ones.
class FullStoreTest : public EventWriterTest,
                      public ::testing::WithParamInterface<xspace::ItemKind> {};

TEST_P(FullStoreTest, EachLineLosesItsEventsUntilThereIsRoom) {
  sink_.refused = {GetParam()};
  WriteAll(100);
  sink_.refused.clear();
  WriteAll(200);
  const tensorflow::profiler::XSpace space = Read();
  EXPECT_EQ(writer_.refused(), 5u);
  EXPECT_EQ(writer_.appended(), 5u);
  std::vector<std::pair<std::string, std::string>> lines;
  for (const auto& plane : space.planes()) {
    for (const auto& line : plane.lines()) {
      EXPECT_EQ(line.events_size(), 1) << line.name();
      EXPECT_GE(line.events(0).offset_ps(), 200'000) << line.name();
      lines.emplace_back(plane.name(), line.name());
    }
    if (plane.name() != "/device:GPU:0") continue;
    std::vector<std::string> stats;
    for (const auto& stat : plane.stats()) {
      stats.push_back(plane.stat_metadata().at(stat.metadata_id()).name());
    }
    EXPECT_THAT(stats, Contains("device_vendor"));
  }
  EXPECT_THAT(lines,
              UnorderedElementsAre(Pair("/device:GPU:0", "Stream #0(Compute)"),
                                   Pair("/device:GPU:0", "Stream #0 lane 2(Memset)"),
                                   Pair("/host:CPU", "thread/77"), Pair("/host:CPU", "GPU memory"),
                                   Pair("/device:CUSTOM:CUDA", "waits, stream 0")));
}

INSTANTIATE_TEST_SUITE_P(Kinds, FullStoreTest,
                         ::testing::Values(xspace::ItemKind::kLine, xspace::ItemKind::kPlane));

// Buffers come back per thread, seconds apart: forward's kernels, then those of autograd between
// them.
TEST_F(EventWriterTest, ThreadsThatShareAStreamShareItsTimeline) {
  constexpr int kKernels = 50;
  for (const uint64_t first : {100, 115}) {
    for (uint64_t i = 0; i < kKernels; ++i) {
      writer_.Device(At(ActivityType::kKernel, first + i * 30), nullptr);
    }
  }
  tensorflow::profiler::XSpace space = Read();
  ASSERT_EQ(space.planes_size(), 1);
  ASSERT_EQ(space.planes(0).lines_size(), 1);
  const auto& events = space.planes(0).lines(0).events();
  ASSERT_EQ(events.size(), 2 * kKernels);
  for (int i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].offset_ps(), 100'000 + i * 15'000);
  // What overlaps, stands on another one.
  writer_.Device(At(ActivityType::kKernel, 120), nullptr);
  space = Read();
  ASSERT_EQ(space.planes(0).lines_size(), 2);
  EXPECT_EQ(space.planes(0).lines(1).events_size(), 1);
}

// XProf finds the plane of a launch by its place among the planes of the file.
TEST_F(EventWriterTest, APlaneIsNumberedOnceItIsDeclared) {
  TimedActivity kernel = At(ActivityType::kKernel, 100);
  sink_.refused = {xspace::ItemKind::kPlane};
  writer_.Device(kernel, nullptr);
  EXPECT_FALSE(writer_.has_device_planes());
  sink_.refused.clear();
  kernel.activity.device = 1;
  writer_.Device(kernel, nullptr);
  Launched launched;
  launched.device = 1;
  writer_.Api(At(ActivityType::kApi, 50), &launched, nullptr);
  EXPECT_TRUE(writer_.has_device_planes());
  const tensorflow::profiler::XSpace space = Read();
  for (const auto& plane : space.planes()) {
    if (plane.name() != "/host:CPU") continue;
    for (const auto& stat : plane.lines(0).events(0).stats()) {
      if (plane.stat_metadata().at(stat.metadata_id()).name() != "device_id") continue;
      EXPECT_EQ(stat.int64_value(), 0);
    }
  }
}

// The store is full when the plane's first line comes: the plane has a number, and the file lacks
// it.
TEST_F(EventWriterTest, APlaneWhoseEventsWereAllRefusedGivesItsNumberToNoOther) {
  TimedActivity kernel = At(ActivityType::kKernel, 100);
  sink_.refused = {xspace::ItemKind::kLine};
  writer_.Device(kernel, nullptr);
  sink_.refused.clear();
  kernel.activity.device = 1;
  writer_.Device(kernel, nullptr);
  Launched launched;
  launched.device = 1;
  writer_.Api(At(ActivityType::kApi, 50), &launched, nullptr);
  const tensorflow::profiler::XSpace space = Read();
  EXPECT_EQ(writer_.refused(), 1u);
  int gpus = 0;
  std::vector<std::string> stats;
  for (const auto& plane : space.planes()) {
    gpus += plane.name().rfind("/device:GPU:", 0) == 0 ? 1 : 0;
    if (plane.name() != "/host:CPU") continue;
    for (const auto& stat : plane.lines(0).events(0).stats()) {
      stats.push_back(plane.stat_metadata().at(stat.metadata_id()).name());
    }
  }
  EXPECT_EQ(gpus, 1);
  // XProf would look for the second GPU plane.
  EXPECT_THAT(stats, UnorderedElementsAre("correlation_id", "gpu_index"));
}

// A program that creates streams and threads in each step.
TEST_F(EventWriterTest, LinesAreBounded) {
  constexpr uint32_t kMore = 10;
  for (uint32_t i = 0; i < GpuPlane::kMaxLines + kMore; ++i) {
    TimedActivity kernel = At(ActivityType::kKernel, 100 + 20 * i);
    kernel.activity.stream = 7 + i;
    writer_.Device(kernel, nullptr);
  }
  for (uint32_t i = 0; i < EventWriter::kMaxLines + kMore; ++i) {
    TimedActivity call = At(ActivityType::kApi, 100 + 20 * i);
    call.activity.thread = 1'000'000'000 + i;
    writer_.Api(call, nullptr, nullptr);
    TimedActivity wait = At(ActivityType::kSync, 100 + 20 * i);
    wait.activity.stream = 7 + i;
    writer_.Other(wait);
  }
  // Those with a line of their own keep it.
  TimedActivity kernel = At(ActivityType::kKernel, 50);
  kernel.activity.stream = 7;
  writer_.Device(kernel, nullptr);
  const tensorflow::profiler::XSpace space = Read();
  EXPECT_EQ(writer_.refused(), 0u);
  std::map<std::string, int> lines;
  std::map<std::string, int> events;
  for (const auto& plane : space.planes()) {
    lines[plane.name()] = plane.lines_size();
    for (const auto& line : plane.lines()) events[line.name()] = line.events_size();
  }
  EXPECT_EQ(lines["/device:GPU:0"], static_cast<int>(GpuPlane::kMaxLines) + 1);
  EXPECT_EQ(lines["/host:CPU"], static_cast<int>(EventWriter::kMaxLines) + 1);
  EXPECT_EQ(lines["/device:CUSTOM:CUDA"], static_cast<int>(EventWriter::kMaxLines) + 1);
  EXPECT_EQ(events["Stream #7(Compute)"], 2);
  for (const char* const shared :
       {"other streams(Compute)", "other threads", "other waits and overhead"}) {
    EXPECT_EQ(events[shared], static_cast<int>(kMore)) << shared;
  }
}

}  // namespace
}  // namespace jobscope::cuda
