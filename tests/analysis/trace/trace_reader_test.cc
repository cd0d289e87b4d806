// SPDX-License-Identifier: Apache-2.0
//
// Tests what the reader takes from a trace: steps, input waits, names; also from traces of other
// profilers.
#include "analysis/trace/trace_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "analysis/alignment/worker_view.h"
#include "analysis/digest/digest_builder.h"
#include "tensorflow/xplane.pb.h"
#include "tests/analysis/trace_files.h"

namespace jobscope::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TraceReaderTest : public ::testing::Test {
 protected:
  // Of one worker whose files are `bytes`.
  const WorkerView& Read(const std::vector<std::string>& files) {
    TraceReader reader;
    for (const std::string& bytes : files) EXPECT_TRUE(reader.Read(bytes).ok());
    const std::unique_ptr<WorkerTrace> trace = reader.Finish();
    RunWorker worker;
    worker.name = "w";
    digest_ = BuildDigest(worker, trace.get());
    absl::StatusOr<WorkerView> view = ViewOf(digest_);
    EXPECT_TRUE(view.ok()) << view.status();
    view_ = view.ok() ? *view : WorkerView();
    return view_;
  }
  static std::vector<int64_t> Numbers(const WorkerView& view) {
    std::vector<int64_t> numbers;
    for (const StepView& step : view.steps) numbers.push_back(step.number);
    return numbers;
  }
  const std::vector<int64_t>& Of(StepClass step_class) const {
    return view_.class_ns[Index(step_class)];
  }

  v1::Digest digest_;
  WorkerView view_;
};

TEST_F(TraceReaderTest, NestedWaitsCountOnce) {
  TraceFile trace;
  trace.Step(1, 0, 10);
  trace.Input(0, 6);
  trace.Event("iteratorgetnext_inner", 1, 4);
  Read({trace.Bytes()});
  EXPECT_THAT(Of(StepClass::kInput), ElementsAre(6'000'000));
}

TEST_F(TraceReaderTest, StagesOfInputPipelinesAreInput) {
  TraceFile trace;
  trace.Step(1, 0, 10);
  trace.Event("read_shard", 2, 5, {}, {{"_ipl_stage_name", "read"}});
  Read({trace.Bytes()});
  EXPECT_THAT(Of(StepClass::kInput), ElementsAre(3'000'000));
}

TEST_F(TraceReaderTest, CountersOfGpusAreNamedOnce) {
  TraceFile trace;
  trace.Step(1, 0, 10);
  trace.GpuCounter("SM clock (MHz)", 5, 1980);
  trace.PlaneText("/device:CUSTOM:NVML:0", "gpu_device_name", "NVIDIA H100");
  Read({trace.Bytes()});
  ASSERT_EQ(digest_.counters_size(), 1);
  EXPECT_EQ(digest_.counters(0).name(), "GPU 0 SM clock (MHz)");
  EXPECT_EQ(digest_.gpu_model(), "NVIDIA H100");
}

TEST_F(TraceReaderTest, ClippedStepsAreNone) {
  TraceFile trace;
  trace.Event("scope/train", 0, 10, {{"clipped_step", 4}});
  trace.Step(5, 10, 20);
  EXPECT_THAT(Numbers(Read({trace.Bytes()})), ElementsAre(5));
}

TEST_F(TraceReaderTest, OfSeveralThreadsTheOneWithMostTimeInStepsCounts) {
  TraceFile trace;
  trace.Step(1, 0, 10);
  trace.Step(2, 10, 20);
  trace.Event("evaluate", 0, 3, {{"_r", 1}, {"step_num", 70}}, {}, "/host:CPU", 2);
  EXPECT_THAT(Numbers(Read({trace.Bytes()})), ElementsAre(1, 2));
  EXPECT_EQ(digest_.step_name(), "train");
}

TEST_F(TraceReaderTest, StepsOfAnotherNameAreWork) {
  TraceFile trace;
  trace.Step(1, 0, 10);
  trace.Event("validate", 12, 18, {{"_r", 1}, {"step_num", 1}});
  trace.Step(2, 20, 30);
  EXPECT_THAT(Numbers(Read({trace.Bytes()})), ElementsAre(1, 2));
  EXPECT_THAT(Of(StepClass::kHost), ElementsAre(0, 6'000'000));
  EXPECT_THAT(Of(StepClass::kUnexplained), ElementsAre(10'000'000, 14'000'000));
}

// A scope around the whole loop explains nothing.
TEST_F(TraceReaderTest, ScopesAroundStepsAreNoWork) {
  TraceFile trace;
  trace.Event("epoch", 0, 40);
  trace.Step(1, 1, 10);
  trace.Step(2, 15, 20);
  Read({trace.Bytes()});
  EXPECT_THAT(Of(StepClass::kHost), IsEmpty());
  EXPECT_THAT(Of(StepClass::kUnexplained), ElementsAre(9'000'000, 10'000'000));
}

TEST_F(TraceReaderTest, EventsOutOfOrderAreSorted) {
  TraceFile trace;
  for (int step = 0; step < 5; ++step) {
    trace.Step(step, step * 10, step * 10 + 9);
    trace.Input(step * 10, step * 10 + 4);
  }
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(trace.Bytes()));
  auto* events = space.mutable_planes(0)->mutable_lines(0)->mutable_events();
  std::reverse(events->begin() + 2, events->end());
  EXPECT_THAT(Numbers(Read({space.SerializeAsString()})), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Of(StepClass::kInput),
              ElementsAre(4'000'000, 4'000'000, 4'000'000, 4'000'000, 4'000'000));
}

// As stock tracers may leave them: lines with time stamps since the epoch, and of two planes.
TEST_F(TraceReaderTest, TimesSinceTheEpochKeepTheirDistances) {
  TraceFile trace;
  trace.Step(1, 0, 10);
  trace.Kernel("gemm", 2, 6);
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(trace.Bytes()));
  for (auto& plane : *space.mutable_planes()) {
    plane.mutable_lines(0)->set_timestamp_ns(1'795'399'164'229'102'787);
  }
  Read({space.SerializeAsString()});
  EXPECT_THAT(Of(StepClass::kDeviceCompute), ElementsAre(4'000'000));
}

TEST_F(TraceReaderTest, PartsAreOneTrace) {
  TraceFile first;
  first.Step(1, 0, 10);
  first.Event("outer", 2, 9);
  TraceFile second;
  second.Event("inner", 3, 4);
  second.Step(2, 10, 20);
  EXPECT_THAT(Numbers(Read({first.Bytes(), second.Bytes()})), ElementsAre(1, 2));
  for (const v1::DigestName& name : digest_.operators()) {
    if (name.name() == "outer") {
      EXPECT_EQ(name.self_ns(), 6'000'000u);
    }
  }
}

TEST_F(TraceReaderTest, WhatARunQueueTookIsNotRunning) {
  TraceFile trace;
  trace.Step(1, 0, 10, {{"run_delay_ns", 3'000'000}});
  trace.Event("forward", 0, 8);
  Read({trace.Bytes()});
  EXPECT_THAT(Of(StepClass::kNotRunning), ElementsAre(3'000'000));
}

TEST_F(TraceReaderTest, CompilationsAndCollectionsByTheirMarks) {
  TraceFile trace;
  trace.Step(1, 0, 20);
  trace.Event("anything", 1, 5, {{"compilation", 1}});
  trace.Event("gc", 6, 8, {{"generation", 2}});
  Read({trace.Bytes()});
  EXPECT_THAT(Of(StepClass::kCompilation), ElementsAre(4'000'000));
  EXPECT_THAT(Of(StepClass::kGarbageCollection), ElementsAre(2'000'000));
}

// Programs have groups of other kinds, too: of quantised weights, of experts.
TEST_F(TraceReaderTest, AGroupSizeAloneMarksNoCollective) {
  TraceFile trace;
  trace.Step(1, 0, 20);
  trace.Event("dequantize", 1, 5, {{"group_size", 128}});
  const WorkerView& view = Read({trace.Bytes()});
  EXPECT_FALSE(view.has_collectives());
  EXPECT_THAT(Of(StepClass::kHost), ElementsAre(4'000'000));
}

TEST_F(TraceReaderTest, AProcessGroupMarksACollective) {
  TraceFile trace;
  trace.Step(1, 0, 20);
  trace.Event("exchange", 1, 5, {{"sequence", 7}, {"group_size", 4}}, {{"process_group", "halo"}});
  const WorkerView& view = Read({trace.Bytes()});
  ASSERT_EQ(view.collectives.size(), 1u);
  const CollectiveView& collective = view.collectives[0];
  EXPECT_EQ(view.texts[*collective.group], "halo");
  EXPECT_EQ(collective.sequence, 7);
  EXPECT_EQ(collective.group_size, 4u);
}

TEST_F(TraceReaderTest, ManyNamesShareOneEntryInTheEnd) {
  TraceFile trace;
  trace.Step(1, 0, 10);
  for (int i = 0; i < 700; ++i) {
    trace.Event("batch " + std::to_string(i), 0.01 * i, 0.01 * i + 0.005);
  }
  Read({trace.Bytes()});
  EXPECT_LE(digest_.operators_size(), 400);
  EXPECT_GT(digest_.operators_left_out(), 250u);
}

TEST_F(TraceReaderTest, KernelsWhoseLongNamesBeginAlikeHaveAnEntryEach) {
  const std::string begin = "kernel<" + std::string(600, 'x');
  TraceFile trace;
  trace.Step(1, 0, 10);
  trace.Kernel(begin + "float>", 1, 3);
  trace.Kernel(begin + "half>", 4, 5);
  trace.Kernel(begin + "half>", 6, 7);
  Read({trace.Bytes()});
  ASSERT_EQ(digest_.kernels_size(), 2);
  std::map<uint64_t, uint64_t> total_ns;  // by count
  for (const v1::DigestName& kernel : digest_.kernels()) {
    EXPECT_EQ(kernel.name().size(), 512u);
    EXPECT_EQ(kernel.name().rfind(begin.substr(0, 400), 0), 0u);
    total_ns[kernel.count()] = kernel.total_ns();
  }
  EXPECT_EQ(total_ns, (std::map<uint64_t, uint64_t>{{1, 2'000'000}, {2, 2'000'000}}));
}

// Of 40 ms of kernels three quarters lie in the account of the step, of copies none.
TEST_F(TraceReaderTest, KernelsOutsideOfStepsAreNoTimeOfSteps) {
  TraceFile trace;
  trace.Step(1, 100, 130);
  trace.Kernel("gemm", 90, 120);
  trace.Kernel("gelu", 120, 130);
  trace.Kernel("MemcpyHtoD", 140, 150, 8);
  Read({trace.Bytes()});
  std::map<std::string, std::pair<uint64_t, uint64_t>> times;  // all, and in steps
  for (const v1::DigestName& name : digest_.kernels()) {
    times[name.name()] = {name.self_ns(), name.step_self_ns()};
  }
  EXPECT_EQ(times["gemm"], std::make_pair(30'000'000ul, 22'500'000ul));
  EXPECT_EQ(times["gelu"], std::make_pair(10'000'000ul, 7'500'000ul));
  EXPECT_EQ(times["MemcpyHtoD"], std::make_pair(10'000'000ul, 0ul));
}

// Four devices compute at the same time, and two streams of the first one overlap for 5 ms. The
// class has 25 ms in the step, of 105 ms of kernels.
TEST_F(TraceReaderTest, NamesOfKernelsAddUpToTheirClass) {
  TraceFile trace;
  trace.Step(1, 0, 30);
  for (int device = 0; device < 4; ++device) {
    trace.Event("gemm", 0, 20, {}, {}, "/device:GPU:" + std::to_string(device), 7);
  }
  trace.Kernel("gelu", 15, 25, 8);
  trace.Kernel("gelu", 40, 55, 8);  // in no step
  Read({trace.Bytes()});
  EXPECT_THAT(Of(StepClass::kDeviceCompute), ElementsAre(25'000'000));
  std::map<std::string, std::pair<uint64_t, uint64_t>> times;  // all, and in steps
  for (const v1::DigestName& name : digest_.kernels()) {
    times[name.name()] = {name.self_ns(), name.step_self_ns()};
  }
  EXPECT_EQ(times["gemm"], std::make_pair(80'000'000ul, 19'047'619ul));
  EXPECT_EQ(times["gelu"], std::make_pair(25'000'000ul, 5'952'381ul));
}

// As XProf writes planes of TPUs: the name of an operation is its whole HLO text, and a loop
// contains the operations of its body.
TEST_F(TraceReaderTest, OperationsOfTpusHaveShortNamesAndNest) {
  TraceFile trace;
  trace.Step(1, 0, 100);
  const std::string loop = "%while.1 = (s32[], f32[8]) while(%tuple.2), body=%body";
  const std::string fusion = "%fusion.3 = f32[8] fusion(%p0), kind=kLoop";
  const std::string reduce = "%all-reduce.5 = f32[8] all-reduce(%p1), to_apply=%add";
  const auto add = [&](const std::string& name, double begin_ms, double end_ms) {
    trace.Event(name, begin_ms, end_ms, {}, {}, "/device:TPU:0");
  };
  trace.NameLine("/device:TPU:0", 1, "XLA Ops");
  add(loop, 10, 60);
  add(fusion, 12, 30);
  add(fusion, 30, 40);
  add(reduce, 45, 50);
  add(fusion, 70, 80);
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(trace.Bytes()));
  for (auto& plane : *space.mutable_planes()) {
    if (plane.name() != "/device:TPU:0") continue;
    for (auto& [id, metadata] : *plane.mutable_event_metadata()) {
      const std::string& text = metadata.name();
      metadata.set_display_name(text.substr(1, text.find(' ') - 1));
    }
  }
  const WorkerView& view = Read({space.SerializeAsString()});
  EXPECT_THAT(Of(StepClass::kDeviceCompute), ElementsAre(38'000'000));
  ASSERT_EQ(view.collectives.size(), 1u);
  EXPECT_EQ(view.texts[view.collectives[0].name], "all-reduce.5");
  std::map<std::string, std::pair<uint64_t, uint64_t>> times;  // total, and self
  for (const v1::DigestName& name : digest_.kernels()) {
    times[name.name()] = {name.total_ns(), name.self_ns()};
    if (name.name() == "fusion.3") {
      EXPECT_EQ(name.step_self_ns(), 38'000'000u);
    }
  }
  EXPECT_EQ(times.size(), 3u);
  EXPECT_EQ(times["while.1"], std::make_pair(50'000'000ul, 17'000'000ul));
  EXPECT_EQ(times["fusion.3"], std::make_pair(38'000'000ul, 38'000'000ul));
  EXPECT_EQ(times["all-reduce.5"], std::make_pair(5'000'000ul, 5'000'000ul));
}

// Each plane has a name of its own, and a large id for it: a table of all smaller ids, for each
// plane, would take minutes.
TEST_F(TraceReaderTest, ManyPlanesWithLargeIds) {
  constexpr size_t kPlanes = 1'000'000;
  constexpr int64_t kId = 65'535;
  tensorflow::profiler::XSpace space;
  tensorflow::profiler::XPlane* const plane = space.add_planes();
  plane->set_name("/host:CPU");
  tensorflow::profiler::XEvent* const event = plane->add_lines()->add_events();
  event->set_metadata_id(kId);
  event->set_duration_ps(1000);
  event->add_stats()->set_metadata_id(kId);
  (*plane->mutable_event_metadata())[kId].set_name("forward");
  (*plane->mutable_stat_metadata())[kId].set_name("step_num");
  const std::string one = space.SerializeAsString();
  std::string all;
  for (size_t i = 0; i < kPlanes; ++i) all += one;
  TraceReader reader;
  ASSERT_TRUE(reader.Read(all).ok());
  const std::unique_ptr<WorkerTrace> trace = reader.Finish();
  EXPECT_EQ(trace->events, kPlanes);
  ASSERT_EQ(trace->operators.size(), 1u);
  EXPECT_EQ(trace->operators[0].name, "forward");
  EXPECT_EQ(trace->operators[0].count, kPlanes);
}

// Ids that share one place in a hash table whose hash is the number itself: each would be compared
// with all others.
TEST_F(TraceReaderTest, IdsThatCollide) {
  constexpr uint64_t kIds = 300'000;
  std::unordered_set<uint64_t> table;
  for (uint64_t id = 0; id < kIds; ++id) table.insert(id);
  const uint64_t distance = table.bucket_count();
  tensorflow::profiler::XSpace space;
  tensorflow::profiler::XPlane* const plane = space.add_planes();
  plane->set_name("/host:CPU");
  tensorflow::profiler::XLine* const line = plane->add_lines();
  line->add_events()->set_metadata_id(static_cast<int64_t>(distance));
  for (uint64_t i = 1; i <= kIds; ++i) {
    const auto id = static_cast<int64_t>(i * distance);
    (*plane->mutable_event_metadata())[id].set_name(i == 1 ? "forward" : "other");
  }
  TraceReader reader;
  ASSERT_TRUE(reader.Read(space.SerializeAsString()).ok());
  EXPECT_EQ(reader.Finish()->operators[0].name, "forward");
}

}  // namespace
}  // namespace jobscope::analysis
