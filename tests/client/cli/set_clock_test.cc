// SPDX-License-Identifier: Apache-2.0
//
// Tests captures during which the machine's clock is set. This program's own clock_gettime replaces
// the C library's.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/client/fan_out/fan_out_fixture.h"
#include "tests/client/fan_out/scripted_worker.h"

namespace {

std::atomic<int64_t> g_shift_s{0};

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): glibc's are reserved.
extern "C" int clock_gettime(clockid_t id, timespec* now) noexcept {
  using Function = int (*)(clockid_t, timespec*);
  static const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = next(id, now);
  if (id == CLOCK_REALTIME && result == 0) now->tv_sec += g_shift_s.load();
  return result;
}

namespace jobscope {
namespace {

// From now on it is this much earlier, or later.
class SetClockTest : public FanOutTest, public ::testing::WithParamInterface<int64_t> {
 protected:
  ~SetClockTest() override { g_shift_s = 0; }
  static void SetClock() { g_shift_s = GetParam(); }
};

// By any library that asks the C library; absl's own clock follows when it looks again.
TEST_P(SetClockTest, IsSeenByAll) {
  const auto unset = std::chrono::system_clock::now();
  SetClock();
  const auto moved = std::chrono::system_clock::now() - unset;
  EXPECT_GT(std::chrono::abs(moved), std::chrono::minutes(30)) << "libstdc++ reads another clock";
}

TEST_P(SetClockTest, RetriesComeAsBefore) {
  options_.times.first_backoff = options_.times.max_backoff = absl::Milliseconds(400);
  Script late;
  late.describe = [this](int attempt) {
    if (attempt > 0) return grpc::Status::OK;
    // While it waits for the next attempt.
    clockwork_.At(SteadyNow() + absl::Milliseconds(100), SetClock);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "Connection refused");
  };
  const uint64_t before_ns = MonotonicNow();
  const std::vector<WorkerResult> results = Run({late});
  EXPECT_STREQ(Name(results[0].outcome.kind), "ok") << results[0].outcome.reason;
  EXPECT_EQ(connects(0), 2);
  // A minute's wait instead of an hour's: far from both.
  EXPECT_LT(MonotonicNow() - before_ns, 60'000'000'000u);
}

TEST_P(SetClockTest, ADelayIsAsLongAsBefore) {
  options_.delay = absl::Milliseconds(1500);
  Script worker;
  worker.arm = [](int) {
    SetClock();
    return grpc::Status::OK;
  };
  Script stock = worker;
  stock.stock = true;
  const uint64_t before_ns = MonotonicNow();
  const std::vector<WorkerResult> results = Run({worker, stock, Script()});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_STREQ(Name(results[i].outcome.kind), "ok") << results[i].outcome.reason;
    EXPECT_GE(begun(i), before_ns + 1'500'000'000);
    EXPECT_LT(begun(i), before_ns + 60'000'000'000);
  }
}

INSTANTIATE_TEST_SUITE_P(ByAnHour, SetClockTest, ::testing::Values(-3600, 3600),
                         [](const auto& info) { return info.param < 0 ? "Back" : "Ahead"; });

}  // namespace
}  // namespace jobscope
