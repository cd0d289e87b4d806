// SPDX-License-Identifier: Apache-2.0
//
// Steps that were inferred, as those of Keras: the time between two epochs is not a step, and the
// report has it as the gap before the step behind it.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "collectors/inferred/inferred_steps.h"
#include "jobscope/capture.h"
#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

class EpochsTest : public RunFixture {};

TEST_F(EpochsTest, TimeBetweenEpochsIsAGapBetweenConsecutiveSteps) {
  constexpr uint64_t kModel = 7;
  constexpr int kSteps = 5;
  framework::RecordInferredSteps(jobscope_trace_writer());
  ASSERT_TRUE(StartCapture(directory_.path()).ok());
  Clock::time_point last_end;
  const auto end_step = [&] {
    last_end = Clock::now();
    framework::NoteStepEnd(kModel, "Keras batch");
  };
  const auto run_epoch = [&] {
    for (int step = 0; step < kSteps; ++step) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      end_step();
    }
  };
  end_step();  // begins the first step
  run_epoch();
  const Clock::time_point first_epoch_end = last_end;
  const Clock::time_point between = Clock::now();
  framework::ForgetStepBegin(kModel);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const Milliseconds at_least = Clock::now() - between;
  end_step();
  const Milliseconds at_most = Clock::now() - first_epoch_end;
  run_epoch();
  const CaptureResult result = StopCapture();
  ASSERT_TRUE(result.ok()) << result.error();

  const absl::StatusOr<Digests> digests = ReadDigests(result.run_directory());
  ASSERT_TRUE(digests.ok()) << digests.status();
  const auto& differences = digests->workers[0].steps().number();
  ASSERT_EQ(differences.size(), 2 * kSteps);
  EXPECT_TRUE(std::all_of(differences.begin() + 1, differences.end(),
                          [](int64_t difference) { return difference == 1; }));
  const json worker = ReportOf(result.run_directory())["workers"][0];
  EXPECT_EQ(worker["steps_source"], "Keras batch");
  // The only gap: all other steps begin where the ones before them have ended.
  const double gap_ms = worker["gap_ms"].get<double>() * 2 * kSteps;
  EXPECT_GT(gap_ms, 0.99 * at_least.count());
  EXPECT_LT(gap_ms, 1.01 * at_most.count());
}

}  // namespace
}  // namespace jobscope::analysis
