// SPDX-License-Identifier: Apache-2.0
//
// Tests which of PyTorch's operators are recorded, and in which form.
#include "collectors/torch/torch_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectors/torch/torch_callbacks.h"
#include "collectors/torch/torch_library.h"
#include "collectors/torch/torch_shapes.h"
#include "tests/collectors/host/recorder/recorded.h"
#include "tests/collectors/torch/fake_torch.h"

namespace jobscope {
namespace {

namespace torch = framework::torch;

using recorder_test::Event;
using recorder_test::kAllBits;
using recorder_test::Record;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(TorchCollectorTest, OperatorsNestAndAreOfTheirThread) {
  Arm();
  // One more in a process that has used gloo, as another test does.
  EXPECT_EQ(fake_.callbacks(), torch::WantsProcessGroups() ? 4u : 3u);
  const auto events = Record(kAllBits, [this] {
    void* const user = fake_.begin(torch::kScopeUser, "forward", false);
    void* const outer = fake_.begin(torch::kScopeFunction, "aten::linear", false);
    Run(torch::kScopeFunction, "aten::addmm");
    fake_.end(outer);
    fake_.end(user);
    Run(torch::kScopeBackward, "AddmmBackward0");
  });
  ASSERT_THAT(events, SizeIs(4));
  EXPECT_EQ(events[0].name, "aten::addmm");
  EXPECT_EQ(events[0].depth, 2u);
  EXPECT_EQ(events[0].bit, uint32_t{JOBSCOPE_BIT_LEVEL2});
  EXPECT_EQ(events[1].name, "aten::linear");
  EXPECT_LE(events[1].begin, events[0].begin);
  EXPECT_GE(events[1].end, events[0].end);
  EXPECT_EQ(events[2].name, "forward");
  EXPECT_EQ(events[2].bit, uint32_t{JOBSCOPE_BIT_LEVEL1});
  EXPECT_EQ(events[3].name, "AddmmBackward0");
  EXPECT_EQ(events[3].depth, 0u);
}

TEST_F(TorchCollectorTest, TheMaskDecidesWhatIsRecordedWhen) {
  Arm();
  const auto user_only = Record(JOBSCOPE_BIT_LEVEL1, [this] {
    Run(torch::kScopeFunction, "aten::mul");
    Run(torch::kScopeUser, "loss");
  });
  ASSERT_THAT(user_only, SizeIs(1));
  EXPECT_EQ(user_only[0].name, "loss");
  EXPECT_THAT(Record(JOBSCOPE_BIT_STEP, [this] { Run(torch::kScopeUser, "loss"); }), IsEmpty());
}

TEST_F(TorchCollectorTest, LevelOneHasNoCallbackPerOperator) {
  Arm(1);
  EXPECT_EQ(fake_.callbacks(), 2u);  // user scopes, and backward functions to tell iterations by
  EXPECT_TRUE(collector_.Stop(UINT64_MAX).ok());
  EXPECT_EQ(fake_.callbacks(), 0u);
}

TEST_F(TorchCollectorTest, WhatRunsWhenTheCallbacksComeOrGoIsNotCutInTwo) {
  void* const before = fake_.begin(torch::kScopeFunction, "aten::before", false);
  Arm();
  const auto events = Record(kAllBits, [this, before] {
    void* const within = fake_.begin(torch::kScopeFunction, "aten::within", false);
    fake_.end(before);
    EXPECT_TRUE(collector_.Stop(UINT64_MAX).ok());
    Run(torch::kScopeFunction, "aten::after");
    fake_.end(within);
  });
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].name, "aten::within");
  EXPECT_EQ(collector_.Report().attempted, 0u);
}

TEST_F(TorchCollectorTest, AsynchronousScopesEndOnAnyThread) {
  Arm();
  void* work = nullptr;
  const auto begins =
      Record(kAllBits, [&] { work = fake_.begin(torch::kScopeUser, "gloo:all_reduce", true); });
  const auto ends = Record(kAllBits, [&] { fake_.end(work); });
  ASSERT_THAT(begins, SizeIs(1));
  ASSERT_THAT(ends, SizeIs(1));
  EXPECT_EQ(begins[0].kind, uint32_t{JOBSCOPE_KIND_ASYNC_BEGIN});
  EXPECT_EQ(ends[0].kind, uint32_t{JOBSCOPE_KIND_ASYNC_END});
  EXPECT_EQ(begins[0].name, "gloo:all_reduce");
  EXPECT_EQ(ends[0].site, begins[0].site);
  EXPECT_EQ(ends[0].args[0].bits, begins[0].args[0].bits);
}

// PyTorch ends such a scope when the collective has been queued on the device.
TEST_F(TorchCollectorTest, CollectivesOfNcclSayThatTheyEndAtEnqueue) {
  Arm();
  const auto events = Record(kAllBits, [this] {
    fake_.end(fake_.begin(torch::kScopeUser, "nccl:all_reduce", true));
    fake_.end(fake_.begin(torch::kScopeUser, "nccl:all_reduce", false));
  });
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[0].name, "nccl:all_reduce (enqueue)");
  EXPECT_EQ(events[2].name, "nccl:all_reduce");
}

TEST_F(TorchCollectorTest, WaitsOfADataLoaderAreInputWaits) {
  Arm();
  const auto events = Record(JOBSCOPE_BIT_LEVEL1, [this] {
    Run(torch::kScopeUser, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    Run(torch::kScopeUser, "enumerate(my loop)");
  });
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[0].name, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
  EXPECT_EQ(events[0].role, uint32_t{JOBSCOPE_ROLE_INPUT_WAIT});
  EXPECT_EQ(events[1].role, uint32_t{JOBSCOPE_ROLE_SCOPE});
}

TEST_F(TorchCollectorTest, OthersThatChangeTheirThreadAreCounted) {
  Arm();
  void* scope = nullptr;
  (void)Record(kAllBits, [&] { scope = fake_.begin(torch::kScopeUser, "rpc", false); });
  EXPECT_THAT(Record(kAllBits, [&] { fake_.end(scope); }), IsEmpty());
  const CollectorReport report = collector_.Report();
  EXPECT_EQ(report.attempted, 1u);
  EXPECT_EQ(report.lost_by_cause.at(LossCause::kOtherThread), 1u);
  Arm();
  EXPECT_EQ(collector_.Report().attempted, 0u);
}

// A later capture would show it as a scope that runs all the time.
TEST_F(TorchCollectorTest, OthersThatChangeTheirThreadAreNotLeftOpen) {
  Arm();
  const uint64_t me = recorder_test::MySerial();
  const auto count_open = [me] {
    jobscope_open_scope scopes[64];
    return jobscope_trace_reader()->open_scopes(me, scopes, 64);
  };
  {
    const recorder_test::Recording recording(kAllBits);
    void* const scope = fake_.begin(torch::kScopeUser, "rpc", false);
    EXPECT_EQ(count_open(), 1u);
    std::thread([&] { fake_.end(scope); }).join();
  }
  const recorder_test::Recording recording(kAllBits);
  EXPECT_EQ(count_open(), 0u);
  void* const next = fake_.begin(torch::kScopeUser, "next", false);
  EXPECT_EQ(count_open(), 1u);
  fake_.end(next);
  EXPECT_EQ(count_open(), 0u);
}

TEST_F(TorchCollectorTest, ThreadsMayMeetNewNamesAtOnce) {
  Arm();
  constexpr int kThreads = 4, kNames = 150;
  const recorder_test::Recording recording(kAllBits);
  std::vector<std::thread> threads;
  std::vector<uint64_t> serials(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, &serials, t] {
      serials[static_cast<size_t>(t)] = recorder_test::MySerial();
      for (int i = 0; i < kNames; ++i) Run(torch::kScopeFunction, absl::StrCat("race::", i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const uint64_t serial : serials) {
    const jobscope_thread_info info = recorder_test::FindThread(serial);
    jobscope_cursor cursor = {info.first_record, info.first_event};
    const auto events = recorder_test::ReadAll(serial, &cursor).events;
    ASSERT_THAT(events, SizeIs(kNames));
    for (int i = 0; i < kNames; ++i) {
      const Event& event = events[static_cast<size_t>(i)];
      EXPECT_EQ(event.args.empty() ? event.name : event.args[0].text, absl::StrCat("race::", i));
    }
  }
}

TEST_F(TorchCollectorTest, AForkedChildRecordsNothing) {
  Arm();
  const recorder_test::Recording recording(kAllBits);
  void* const open = fake_.begin(torch::kScopeFunction, "aten::fork", false);
  const pid_t child = fork();
  if (child == 0) {
    fake_.end(open);
    Run(torch::kScopeFunction, "aten::in_child");
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  fake_.end(open);
}

// The boundary lies behind the optimizer's scope, not in it.
TEST_F(TorchCollectorTest, OptimizerScopesAreSteps) {
  Arm();
  const auto events = Record(kAllBits, [this] {
    for (int i = 0; i < 3; ++i) {
      Run(torch::kScopeFunction, "aten::mm");
      Run(torch::kScopeBackward, "MmBackward0");
      void* const step = fake_.begin(torch::kScopeUser, "Optimizer.step#SGD.step", false);
      Run(torch::kScopeFunction, "aten::add_");
      fake_.end(step);
    }
  });
  std::vector<Event> steps;
  std::copy_if(events.begin(), events.end(), std::back_inserter(steps),
               [](const Event& event) { return event.kind == JOBSCOPE_KIND_STEP; });
  ASSERT_THAT(steps, SizeIs(2));  // the first one's begin was not seen
  EXPECT_EQ(steps[0].name, "optimizer step");
  EXPECT_EQ(steps[0].role, uint32_t{JOBSCOPE_ROLE_INFERRED_STEP});
  EXPECT_EQ(steps[0].end, steps[1].begin);
  for (const Event& event : events) {
    for (const Event& step : steps) {
      const bool inside = step.begin <= event.begin && event.end <= step.end;
      const bool apart = event.end <= step.begin || step.end <= event.begin;
      EXPECT_TRUE(inside || apart) << event.name;
    }
  }
  // What lies between two captures is not a step.
  EXPECT_TRUE(collector_.Stop(UINT64_MAX).ok());
  Arm();
  const auto later = Record(kAllBits, [this] {
    Run(torch::kScopeBackward, "MmBackward0");
    Run(torch::kScopeUser, "Optimizer.step#SGD.step");
  });
  ASSERT_THAT(later, SizeIs(2));
  EXPECT_EQ(later[1].kind, uint32_t{JOBSCOPE_KIND_SCOPE});
}

// A session that waits for a step has no bit on but that of steps.
TEST_F(TorchCollectorTest, OptimizerScopesAreStepsBeforeTheyAreRecorded) {
  Arm();
  const auto events = Record(JOBSCOPE_BIT_STEP, [this] {
    for (int i = 0; i < 3; ++i) {
      Run(torch::kScopeUser, "forward");
      Run(torch::kScopeBackward, "MmBackward0");
      Run(torch::kScopeUser, "Optimizer.step#SGD.step");
    }
  });
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[0].kind, uint32_t{JOBSCOPE_KIND_STEP});
  EXPECT_EQ(events[1].kind, uint32_t{JOBSCOPE_KIND_STEP});
}

// ZeRO calls its optimizer for one group of parameters after the other.
TEST_F(TorchCollectorTest, OptimizerScopesOfOneIterationAreOneStep) {
  for (const int level : {1, 2}) {
    Arm(level);
    const auto events = Record(JOBSCOPE_BIT_STEP, [this] {
      for (int i = 0; i < 4; ++i) {
        Run(torch::kScopeBackward, "MmBackward0");
        for (int group = 0; group < 5; ++group) Run(torch::kScopeUser, "Optimizer.step#SGD.step");
      }
    });
    EXPECT_THAT(events, SizeIs(3)) << level;
  }
}

// Gradients that autograd has not made.
TEST_F(TorchCollectorTest, OptimizerScopesAreStepsOfAProgramWithoutBackward) {
  Arm();
  const auto events = Record(JOBSCOPE_BIT_STEP, [this] {
    for (int i = 0; i < 16 + 4; ++i) Run(torch::kScopeUser, "Optimizer.step#SGD.step");
  });
  EXPECT_THAT(events, SizeIs(3));
}

TEST_F(TorchCollectorTest, ShapesAreThereIfAskedFor) {
  const torch::Sizes sizes = {{32, 64}, {}, {128, 64}};
  fake_.set_inputs(&sizes);
  const auto run = [this] {
    Run(torch::kScopeFunction, "aten::addmm");
    Run(torch::kScopeBackward, "AddmmBackward0");
    Run(torch::kScopeUser, "forward");
  };
  Arm(2, "auto", true);
  const auto with = Record(kAllBits, run);
  ASSERT_THAT(with, SizeIs(3));
  for (const size_t i : {0u, 1u}) {
    ASSERT_THAT(with[i].args, SizeIs(1)) << with[i].name;
    EXPECT_EQ(with[i].keys.at(0), "shape");
    EXPECT_EQ(with[i].args[0].text, "[[32, 64], [], [128, 64]]");
  }
  EXPECT_THAT(with[2].args, IsEmpty());
  EXPECT_EQ(collector_.Report().state, CollectorState::kOn);
  EXPECT_THAT(collector_.Report().warnings, IsEmpty());

  Arm(2);
  for (const Event& event : Record(kAllBits, run)) EXPECT_THAT(event.args, IsEmpty());

  Arm(1, "auto", true);
  ASSERT_THAT(collector_.Report().warnings, SizeIs(1));
  EXPECT_THAT(collector_.Report().warnings[0], HasSubstr("host_tracer_level 2"));
}

TEST_F(TorchCollectorTest, ShapesThatPyTorchRefusesAreCountedAndGivenUp) {
  const torch::Sizes sizes = {{7}};
  fake_.set_inputs(&sizes);
  Arm(2, "auto", true);
  const auto events = Record(kAllBits, [this] {
    Run(torch::kScopeFunction, "aten::nested");
    Run(torch::kScopeFunction, "aten::mul");
    for (uint32_t i = 0; i < 2 * torch::kMaxRefusals; ++i) {
      Run(torch::kScopeFunction, "aten::nested");
    }
    Run(torch::kScopeFunction, "aten::mul");
  });
  ASSERT_THAT(events, SizeIs(3 + 2 * torch::kMaxRefusals));
  EXPECT_THAT(events[0].args, IsEmpty());
  EXPECT_THAT(events[1].args, SizeIs(1));
  EXPECT_THAT(events.back().args, IsEmpty());
  EXPECT_EQ(fake_.flying_exceptions(), 0);
  ASSERT_THAT(collector_.Report().warnings, SizeIs(1));
  EXPECT_THAT(collector_.Report().warnings[0],
              HasSubstr(absl::StrCat(torch::kMaxRefusals, " operators have no shapes")));
  Arm(2, "auto", true);
  EXPECT_THAT(collector_.Report().warnings, IsEmpty());
}

TEST(TorchShapes, AsText) {
  std::string text;
  EXPECT_FALSE(torch::ShapesText({}, &text));
  EXPECT_FALSE(torch::ShapesText({{}, {}}, &text));
  EXPECT_TRUE(torch::ShapesText({{0}}, &text));
  EXPECT_EQ(text, "[[0]]");
  EXPECT_TRUE(torch::ShapesText({{}, {1, -1, INT64_MAX}}, &text));
  EXPECT_EQ(text, "[[], [1, -1, 9223372036854775807]]");
  // Longer than what is kept, so that it is marked as cut; but not without end.
  EXPECT_TRUE(torch::ShapesText(torch::Sizes(10'000, {12, 34}), &text));
  EXPECT_GT(text.size(), size_t{JOBSCOPE_MAX_STRING});
  EXPECT_LT(text.size(), size_t{2 * JOBSCOPE_MAX_STRING});
  EXPECT_TRUE(torch::ShapesText({std::vector<int64_t>(10'000, 1)}, &text));
  EXPECT_LT(text.size(), size_t{2 * JOBSCOPE_MAX_STRING});
}

TEST_F(TorchCollectorTest, SaysWhyItIsOff) {
  EXPECT_EQ(collector_.Describe().state, CollectorState::kOn);
  EXPECT_THAT(Arm(0).reason, HasSubstr("host_tracer_level"));
  EXPECT_THAT(Arm(2, "none").reason, HasSubstr("none"));
  EXPECT_EQ(Arm(2, "jax").state, CollectorState::kOff);
  EXPECT_EQ(fake_.callbacks(), 0u);
  EXPECT_EQ(Arm(2, "torch").state, CollectorState::kOn);
  EXPECT_TRUE(collector_.Stop(UINT64_MAX).ok());

  fake_.SetVersion("3.0.0");
  EXPECT_THAT(Arm().reason, HasSubstr("3.0.0"));
  EXPECT_THAT(collector_.Describe().reason, HasSubstr("JOBSCOPE_TORCH_ANY_VERSION"));
  EXPECT_EQ(collector_.Report().state, CollectorState::kOff);
  EXPECT_EQ(fake_.callbacks(), 0u);
  setenv("JOBSCOPE_TORCH_ANY_VERSION", "1", 1);
  EXPECT_EQ(Arm().state, CollectorState::kOn);
  unsetenv("JOBSCOPE_TORCH_ANY_VERSION");

  TorchCollector without_recorder(nullptr, [](const std::function<void()>&) {});
  ArmRequest request;
  EXPECT_TRUE(without_recorder.Arm(request).ok());
  EXPECT_EQ(without_recorder.Describe().state, CollectorState::kOff);
}

TEST(TorchVersion, IsTakenFromWhatLiesBesideTheLibrary) {
  char name[] = "/tmp/jobscope-torch-version-XXXXXX";
  const std::filesystem::path folder = mkdtemp(name);
  std::filesystem::create_directories(folder / "lib");
  const std::string library = folder / "lib" / "libtorch_cpu.so";
  EXPECT_EQ(torch::VersionOf(library), "");
  EXPECT_EQ(torch::VersionOf(library + ".1.13"), "1.13");
  std::ofstream(library + ".2.1.0") << "x";
  std::filesystem::create_symlink(library + ".2.1.0", library);
  EXPECT_EQ(torch::VersionOf(library), "2.1.0");
  std::ofstream(folder / "build-version") << "2.2.0+cpu\n";
  EXPECT_EQ(torch::VersionOf(library), "2.2.0+cpu");
  std::ofstream(folder / "version.py") << "__version__ = '2.3.0a0+git1'\n";
  EXPECT_EQ(torch::VersionOf(library), "2.3.0a0+git1");
  std::filesystem::remove_all(folder);
}

TEST(TorchVersion, OnlyTestedOnesAreTaken) {
  EXPECT_EQ(torch::ParseVersion("1.13.0a0"), std::make_pair(1, 13));
  EXPECT_EQ(torch::ParseVersion("2.15.0+cu132"), std::make_pair(2, 15));
  for (const char* text : {"", "2", "2.", ".1", "x.y", "99999999999.1"}) {
    EXPECT_FALSE(torch::ParseVersion(text).has_value()) << text;
  }
  for (const char* text : {"1.13.0", "2.0.1", "2.15.0+cu132"}) {
    EXPECT_TRUE(torch::CheckVersion(text).ok()) << text;
  }
  for (const char* text : {"", "1.12.1", "2.16.0", "3.0", "unknown"}) {
    EXPECT_FALSE(torch::CheckVersion(text).ok()) << text;
  }
}

}  // namespace
}  // namespace jobscope
