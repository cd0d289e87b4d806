// SPDX-License-Identifier: Apache-2.0
//
// Runs the host collector on rings that a test has written: for cases that a real program reaches
// rarely, at exact times.
#ifndef TESTS_COLLECTORS_HOST_HOST_COLLECTOR_FIXTURE_H_
#define TESTS_COLLECTORS_HOST_HOST_COLLECTOR_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "collectors/host/host_collector.h"
#include "tests/collectors/host/fake_recorder.h"
#include "tests/collectors/host/session_driver.h"

namespace jobscope {

inline constexpr uint32_t kPlain = 7;
inline constexpr uint32_t kStep = 2;
inline constexpr uint32_t kArgs = 3;
inline constexpr uint32_t kAsync = 4;
inline constexpr uint32_t kFlow = 5;
inline constexpr uint32_t kCounter = 6;
inline constexpr uint32_t kUnknown = 999;

// Ticks are nanoseconds. The window begins at kZero, which is long ago: what a test writes is
// always before `now`.
class HostCollectorTest : public testing::Test {
 protected:
  static constexpr uint64_t kZero = 1'000'000;

  HostCollectorTest() {
    recorder_.sites[kPlain] = {"plain", "", "file.cc", 7, JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_SCOPE,
                               {}};
    recorder_.sites[kStep] = {"train", "", "", 0, JOBSCOPE_BIT_STEP, JOBSCOPE_ROLE_STEP, {}};
    recorder_.sites[kArgs] = {
        "args", "io", "", 0, JOBSCOPE_BIT_LEVEL3, JOBSCOPE_ROLE_SCOPE, {"a", "group_id", "c"}};
    recorder_.sites[kAsync] = {"request", "", "", 0, JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_ASYNC, {}};
    recorder_.sites[kFlow] = {"flow", "", "", 0, JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_FLOW, {}};
    recorder_.sites[kCounter] = {"queue", "", "", 0, JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_COUNTER,
                                 {}};
    Thread(1).tid = 101;
    Thread(1).name = "main";
    // Without it, the window would begin no earlier than Start.
    session_.request().lookback = absl::Seconds(1);
  }

  FakeRecorder::Thread& Thread(uint64_t serial) { return recorder_.threads[serial]; }

  void Begin(uint64_t start = kZero) {
    ASSERT_TRUE(session_.Arm().ok());
    ASSERT_TRUE(session_.StartAt(start).ok());
  }
  void End(uint64_t ns_after_zero) { session_.StopAt(kZero + ns_after_zero); }
  uint64_t Lost(LossCause cause) const {
    const auto found = session_.report().lost_by_cause.find(cause);
    return found == session_.report().lost_by_cause.end() ? 0 : found->second;
  }

  FakeRecorder recorder_;
  HostCollector collector_{recorder_.table()};
  SessionDriver session_{&collector_, /*uses_tsc=*/false};
};

}  // namespace jobscope

#endif  // TESTS_COLLECTORS_HOST_HOST_COLLECTOR_FIXTURE_H_
