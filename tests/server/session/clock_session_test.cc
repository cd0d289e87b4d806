// SPDX-License-Identifier: Apache-2.0
//
// Tests sessions with the real recorder on a machine whose clocks jump relative to its ticks,
// before a capture and during one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectors/host/host_collector.h"
#include "common/clock/clock.h"
#include "common/clock/clock_baseline.h"
#include "common/clock/clock_for_testing.h"
#include "common/xspace/assemble/assembler.h"
#include "jobscope/trace.h"
#include "server/session/session_manager.h"
#include "tensorflow/xplane.pb.h"
#include "tests/server/session/session_fixture.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;
using Steady = std::chrono::steady_clock;

constexpr int64_t kSecondNs = 1'000'000'000;

struct Jump {
  const char* name;
  // Jumps of the clocks relative to the ticks: ticks that jump ahead are clocks that fall behind.
  int64_t monotonic_ns;
  int64_t boottime_ns;
  const char* warning;
  int64_t ticks = 0;
  // Rate of the clocks relative to the ticks. Far from 1, so that the first comparison detects it.
  double rate = 1;
};

const Jump kJumps[] = {
    {"Suspend", -50 * kSecondNs, 0, "the machine was suspended for 50.0 s"},
    {"TicksAhead", -50 * kSecondNs, -50 * kSecondNs, "jumped by 50."},
    {"TicksBehind", 3600 * kSecondNs, 3600 * kSecondNs, "jumped by -3600."},
    {"Reset", 0, 0, "the time stamp counter began anew", -(int64_t{1} << 45)},
    {"AnotherRate", 0, 0, "or its rate changed", 0, 100},
};

class ClockSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!uses_tsc_) GTEST_SKIP() << "ticks are MONOTONIC here";
  }
  ~ClockSourceTest() override {
    if (manager_ != nullptr) {
      EXPECT_TRUE(manager_->Shutdown(absl::Seconds(60)));
    }
    ShiftMonotonicForTesting(0, 0);
    ShiftTicksForTesting(0);
    SetMonotonicRateForTesting(1);
  }

  void Make() {
    SessionManager::Dependencies dependencies;
    dependencies.collectors = {&host_};
    dependencies.uses_tsc = uses_tsc_;
    dependencies.clock = clock_;
    manager_ = std::make_unique<SessionManager>(std::move(dependencies));
  }
  // A jump in the middle of a capture.
  static void Happen(const Jump& jump) {
    ShiftMonotonicForTesting(jump.monotonic_ns, jump.boottime_ns);
    ShiftTicksForTesting(jump.ticks);
    SetMonotonicRateForTesting(jump.rate);
  }
  // A jump between captures. Ticks and rate are the real ones after it: those of the records.
  void MakeBefore(const Jump& jump) {
    ShiftTicksForTesting(-jump.ticks);
    SetMonotonicRateForTesting(jump.rate);
    clock_ = std::make_shared<ClockBaseline>(uses_tsc_);
    Make();
  }
  static void HappenBetween(const Jump& jump) {
    ShiftMonotonicForTesting(jump.monotonic_ns, jump.boottime_ns);
    ShiftTicksForTesting(0);
    SetMonotonicRateForTesting(1);
  }

  std::future<SessionResult> Submit(absl::Duration lookback = absl::ZeroDuration()) {
    SessionOptions options;
    options.session_id = "s";
    options.duration = absl::InfiniteDuration();
    options.lookback = lookback;
    options.store_bytes = 4 << 20;
    auto done = std::make_shared<std::promise<SessionResult>>();
    SessionCallbacks callbacks;
    callbacks.started = [this](const SessionStarted& /*started*/) { started_.set_value(); };
    callbacks.done = [done](SessionResult result) {
      result.slot.reset();
      done->set_value(std::move(result));
    };
    started_ = {};
    ticket_ = manager_->Submit(std::move(options), WhenBusy::kWait, absl::InfiniteFuture(),
                               std::move(callbacks));
    return done->get_future();
  }
  bool Started() { return started_.get_future().wait_for(kTimeout) == std::future_status::ready; }
  static SessionResult Get(std::future<SessionResult>* result) {
    EXPECT_EQ(result->wait_for(kTimeout), std::future_status::ready) << "it does not end";
    return result->get();
  }

  // Durations of the events of that name, in ns.
  static std::vector<double> Named(const SessionResult& result, const std::string& name) {
    struct StringSink : xspace::ByteSink {
      absl::Status Write(std::string_view bytes, bool /*stable*/) override {
        text.append(bytes);
        return absl::OkStatus();
      }
      std::string text;
    } sink;
    const std::vector<xspace::ItemView> items = result.store->Items();
    auto assembler = xspace::Assembler::Create(items, xspace::AssembleOptions());
    EXPECT_TRUE(assembler.ok() && assembler->Write(0, &sink).ok());
    tensorflow::profiler::XSpace space;
    EXPECT_TRUE(space.ParseFromString(sink.text));
    std::vector<double> durations;
    for (const auto& plane : space.planes()) {
      for (const auto& line : plane.lines()) {
        for (const auto& event : line.events()) {
          if (plane.event_metadata().at(event.metadata_id()).name() != name) continue;
          durations.push_back(static_cast<double>(event.duration_ps()) / 1e3);
        }
      }
    }
    return durations;
  }

  // A scope of 20 ms or more; how long it took at least and at most.
  struct Bounds {
    double low_ns, high_ns;
  };
  static Bounds Work() {
    const auto outer = Steady::now();
    Steady::duration inner;
    {
      JOBSCOPE_SCOPE("work");
      const auto begin = Steady::now();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      inner = Steady::now() - begin;
    }
    return {static_cast<double>(std::chrono::nanoseconds(inner).count()),
            static_cast<double>(std::chrono::nanoseconds(Steady::now() - outer).count())};
  }
  // Allows twice the 0.1 % by which a clock may be slewed.
  static void ExpectRight(const std::vector<double>& durations, const Bounds& bounds) {
    ASSERT_EQ(durations.size(), 1u);
    EXPECT_GE(durations[0], bounds.low_ns * 0.998);
    EXPECT_LE(durations[0], bounds.high_ns * 1.002);
  }
  static std::string Warnings(const SessionResult& result) {
    std::string all;
    for (const std::string& warning : result.summary.warnings()) all += warning + "\n";
    return all;
  }

  const bool uses_tsc_ = ::jobscope_trace_reader()->uses_tsc != 0;
  HostCollector host_{::jobscope_trace_reader()};
  std::shared_ptr<ClockBaseline> clock_ = std::make_shared<ClockBaseline>(uses_tsc_);
  std::unique_ptr<SessionManager> manager_;
  std::promise<void> started_;
  SessionTicket ticket_ = 0;
};

class ClockSessionTest : public ClockSourceTest, public ::testing::WithParamInterface<Jump> {};

TEST_P(ClockSessionTest, AJumpBeforeACaptureLeavesItsTimesRight) {
  MakeBefore(GetParam());
  ASSERT_TRUE(Becomes([this] { return clock_->AgeNs(WorkerMonotonicNs()) > kMinBaselineNs; }));
  HappenBetween(GetParam());
  const int64_t realtime_ns = RealtimeNs();
  std::future<SessionResult> pending = Submit();
  ASSERT_TRUE(Started());
  const Bounds bounds = Work();
  manager_->Stop("s");
  const SessionResult result = Get(&pending);
  ASSERT_TRUE(result.status.ok()) << result.status;
  ExpectRight(Named(result, "work"), bounds);
  EXPECT_THAT(Warnings(result), HasSubstr(GetParam().warning));
  EXPECT_EQ(result.summary.ended_by(), "request");
  EXPECT_GE(result.summary.zero_unix_ns(), realtime_ns);
  EXPECT_LE(result.summary.zero_unix_ns(), RealtimeNs());

  // The next one finds nothing.
  std::future<SessionResult> next = Submit();
  ASSERT_TRUE(Started());
  const Bounds again = Work();
  manager_->Stop("s");
  const SessionResult after = Get(&next);
  ExpectRight(Named(after, "work"), again);
  EXPECT_EQ(Warnings(after), "");
}

TEST_P(ClockSessionTest, AJumpInTheMiddleEndsTheCaptureThere) {
  Make();
  std::future<SessionResult> pending = Submit();
  ASSERT_TRUE(Started());
  const Bounds bounds = Work();
  // Read before the jump: a drain that came after it would not know when that was.
  ASSERT_TRUE(Becomes([this] { return manager_->Progress(ticket_)->events > 0; }));
  Happen(GetParam());
  { JOBSCOPE_SCOPE("after"); }
  const SessionResult result = Get(&pending);
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.summary.ended_by(), "clock");
  EXPECT_TRUE(result.summary.truncated());
  EXPECT_THAT(Warnings(result), HasSubstr("jumped while the capture recorded"));
  EXPECT_TRUE(Named(result, "after").empty());
  ExpectRight(Named(result, "work"), bounds);
  EXPECT_EQ(result.summary.attempted(),
            result.summary.events() + result.summary.lost() + result.summary.outside());
  EXPECT_GE(result.summary.lost(), 1u);
  EXPECT_LT(result.summary.duration_ns(), 60'000'000'000u) << "not by the jump";
}

TEST_P(ClockSessionTest, ALookbackDoesNotReachBehindAJump) {
  host_.SetAlwaysOn(true);
  MakeBefore(GetParam());
  { JOBSCOPE_SCOPE_COARSE("before"); }
  ASSERT_TRUE(Becomes([this] { return clock_->AgeNs(WorkerMonotonicNs()) > kMinBaselineNs; }));
  HappenBetween(GetParam());
  const auto jumped = Steady::now();
  std::future<SessionResult> pending = Submit(absl::Seconds(10));
  ASSERT_TRUE(Started());
  const Bounds bounds = Work();
  manager_->Stop("s");
  const SessionResult result = Get(&pending);
  host_.SetAlwaysOn(false);
  ExpectRight(Named(result, "work"), bounds);
  EXPECT_TRUE(Named(result, "before").empty());
  EXPECT_LE(result.summary.lookback_ns(),
            static_cast<uint64_t>(std::chrono::nanoseconds(Steady::now() - jumped).count()));
}

// The kernel has found the counter unstable after the server's start.
TEST_F(ClockSourceTest, AnUnstableCounterIsInTheTrace) {
  const std::string path = ::testing::TempDir() + "/clocksource_of_a_session";
  std::ofstream(path) << "tsc\n";
  clock_ = std::make_shared<ClockBaseline>(uses_tsc_, path);
  Make();
  const auto warnings_of_a_session = [this] {
    std::future<SessionResult> pending = Submit();
    EXPECT_TRUE(Started());
    manager_->Stop("s");
    return Warnings(Get(&pending));
  };
  EXPECT_EQ(warnings_of_a_session(), "");
  std::ofstream(path) << "hpet\n";
  EXPECT_THAT(warnings_of_a_session(), HasSubstr("hpet"));
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Jumps, ClockSessionTest, ::testing::ValuesIn(kJumps),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace jobscope
