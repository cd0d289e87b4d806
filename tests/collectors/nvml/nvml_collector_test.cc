// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvml/nvml_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/again_if_busy.h"
#include "tests/collectors/gated_sink.h"
#include "tests/collectors/host/session_driver.h"
#include "tests/collectors/nvml/fake_driver.h"

namespace jobscope {
namespace {

using nvml::FakeDriver;
using nvml::FakeUuid;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr bool kMonotonic = false;  // ticks are nanoseconds
constexpr absl::Duration kAwhile = absl::Seconds(60);
constexpr absl::Duration kHangsSoon = absl::Milliseconds(50);
constexpr int kMetrics = 9;

FakeDriver& driver() {
  static auto* const driver = new FakeDriver(FAKE_NVML);
  return *driver;
}

class NvmlCollectorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.monitor.library = FAKE_NVML;
    options_.monitor.every = absl::Milliseconds(1);
    // On a busy machine nothing hangs that only takes long.
    options_.monitor.hangs_after = options_.arm_waits = kAwhile;
    driver().Reset(1);
  }
  void TearDown() override {
    driver_.reset();
    driver().Release();
    collector_.reset();
    const absl::Time deadline = absl::Now() + kAwhile;
    while (driver().Open() != 0 && absl::Now() < deadline) std::this_thread::yield();
    EXPECT_EQ(driver().Open(), 0);
  }
  NvmlCollector& collector() {
    if (collector_ == nullptr) collector_ = std::make_unique<NvmlCollector>(kMonotonic, options_);
    return *collector_;
  }
  SessionDriver& session() {
    if (driver_ == nullptr) driver_ = std::make_unique<SessionDriver>(&collector(), kMonotonic);
    return *driver_;
  }
  // Until each GPU was sampled a few times.
  void Record(int rounds = 5) {
    ASSERT_TRUE(session().Arm().ok());
    ASSERT_TRUE(session().Start().ok());
    // Of at most two GPUs; besides, the first look and the round that runs.
    const uint64_t before = driver().Calls("nvmlDeviceGetMemoryInfo");
    ASSERT_TRUE(driver().AwaitCalls("nvmlDeviceGetMemoryInfo",
                                    before + static_cast<uint64_t>(rounds) * 2 + 6));
    (void)session().Drain();
  }

  NvmlCollectorOptions options_;
  std::unique_ptr<NvmlCollector> collector_;
  std::unique_ptr<SessionDriver> driver_;
};

TEST_F(NvmlCollectorTest, EachGpuHasItsCountersOnAPlaneOfItsOwn) {
  driver().Reset(2);
  Record();
  session().Stop();
  session().ExpectIdentity();
  EXPECT_EQ(session().report().state, CollectorState::kOn) << session().report().reason;
  EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
  EXPECT_GE(session().report().events, 5u * 2 * kMetrics);
  const std::vector<ReadEvent> power = session().Named("GPU 1 power (W)");
  ASSERT_GE(power.size(), 5u);
  EXPECT_EQ(power[0].plane, "/device:CUSTOM:NVML:1");
  EXPECT_EQ(power[0].line, "_counters_");
  EXPECT_EQ(power[0].doubles.at("GPU 1 power (W)"), 350.501);
  EXPECT_EQ(session().Named("GPU 0 utilization (%)").at(0).doubles.at("GPU 0 utilization (%)"), 10);
  EXPECT_EQ(session().Named("GPU 0 memory used (MiB)").at(0).doubles.at("GPU 0 memory used (MiB)"),
            3072);
  EXPECT_EQ(session().Named("GPU 0 SM clock (MHz)").at(0).doubles.at("GPU 0 SM clock (MHz)"), 1980);
  EXPECT_EQ(session().Named("GPU 0 temperature (C)").at(0).doubles.at("GPU 0 temperature (C)"), 54);
  // XProf would take any of it for work of the GPU.
  for (const auto& plane : session().space().planes()) {
    EXPECT_NE(plane.name().substr(0, 12), "/device:GPU:");
  }
}

TEST_F(NvmlCollectorTest, GpusAreNumberedAsCudaDoes) {
  driver().Reset(4);
  options_.monitor.cuda_devices = [] { return std::vector<std::string>{FakeUuid(3)}; };
  Record();
  session().Stop();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named("GPU 0 utilization (%)").at(0).doubles.at("GPU 0 utilization (%)"), 13);
  EXPECT_THAT(session().Named("GPU 3 utilization (%)"), IsEmpty());
}

TEST_F(NvmlCollectorTest, GpusWhoseUuidCannotBeReadAreKeptApart) {
  driver().Reset(2);
  driver().Fail("nvmlDeviceGetUUID", -1, 999);
  Record();
  session().Stop();
  session().ExpectIdentity();
  for (const int gpu : {0, 1}) {
    const std::string name = "GPU " + std::to_string(gpu) + " utilization (%)";
    const std::vector<ReadEvent> samples = session().Named(name);
    ASSERT_FALSE(samples.empty()) << name;
    for (const ReadEvent& sample : samples) {
      EXPECT_EQ(sample.plane, "/device:CUSTOM:NVML:" + std::to_string(gpu));
      EXPECT_EQ(sample.doubles.at(name), 10 + gpu);
    }
  }
}

TEST_F(NvmlCollectorTest, TheWindowHolds) {
  ASSERT_TRUE(session().Arm().ok());
  // Begins a second from now, and ends at once: no sample lies in it.
  ASSERT_TRUE(session().StartAt(session().Now() + 1'000'000'000).ok());
  ASSERT_TRUE(driver().AwaitCalls("nvmlDeviceGetMemoryInfo", 5));
  (void)session().Drain();
  session().StopAt(session().Now() + 1'000'000'000);
  session().ExpectIdentity();
  EXPECT_EQ(session().report().events, 0u);
}

TEST_F(NvmlCollectorTest, NothingIsSampledOutsideOfASession) {
  Record();
  session().Stop();
  // Whatever round was still running is over when the next answer is there.
  (void)collector().RefreshGpus(absl::ZeroDuration(), [] {});
  const absl::Time deadline = absl::Now() + kAwhile;
  while (collector().Gpus().age_ms() > 1'000 && absl::Now() < deadline) std::this_thread::yield();
  ASSERT_TRUE(session().Arm().ok());
  const uint64_t samples = driver().Calls("nvmlDeviceGetTemperature");
  ASSERT_TRUE(session().Arm().ok());  // asks once more; nothing in between
  EXPECT_EQ(driver().Calls("nvmlDeviceGetTemperature"), samples + 1);
}

TEST_F(NvmlCollectorTest, SessionsFollowEachOther) {
  for (int i = 0; i < 10; ++i) {
    driver_.reset();
    Record();
    session().Stop();
    session().ExpectIdentity();
    EXPECT_GT(session().report().events, 0u);
  }
}

TEST_F(NvmlCollectorTest, LevelZeroAndIntervalZeroAreOff) {
  session().request().recording.device_tracer_level = 0;
  ASSERT_TRUE(session().Arm().ok());
  ASSERT_TRUE(session().Start().ok());
  session().Stop();
  EXPECT_EQ(session().report().state, CollectorState::kOff);
  EXPECT_THAT(session().report().reason, HasSubstr("device_tracer_level"));
  driver_.reset();
  collector_.reset();
  options_.off = true;
  ASSERT_TRUE(session().Arm().ok());
  ASSERT_TRUE(session().Start().ok());
  session().Stop();
  EXPECT_THAT(session().report().reason, HasSubstr("JOBSCOPE_NVML_MS"));
  EXPECT_FALSE(collector().RefreshGpus(absl::ZeroDuration(), [] {}));
  EXPECT_EQ(driver().Calls(""), 0u);
}

TEST_F(NvmlCollectorTest, WithoutADriverItIsOffAndSaysSo) {
  options_.monitor.library = "libjobscope-there-is-no-such-driver.so.1";
  for (int i = 0; i < 2; ++i) {
    driver_.reset();
    ASSERT_TRUE(session().Arm().ok());
    ASSERT_TRUE(session().Start().ok());
    EXPECT_EQ(session().Drain(), absl::InfiniteDuration());
    session().Stop();
    EXPECT_EQ(session().report().state, CollectorState::kOff);
    EXPECT_THAT(session().report().reason, HasSubstr("no NVIDIA driver"));
    EXPECT_EQ(session().report().attempted, 0u);
    EXPECT_EQ(collector().Describe().state, CollectorState::kOff);
    EXPECT_THAT(collector().Gpus().reason(), HasSubstr("no NVIDIA driver"));
  }
}

TEST_F(NvmlCollectorTest, ADriverThatFailsIsAFailureOfThisPartOnly) {
  driver().Fail("nvmlInit_v2", -1, nvml::kVersionMismatch);
  const absl::Status status = session().Arm();
  EXPECT_THAT(std::string(status.message()), HasSubstr("reload it or reboot"));
  EXPECT_EQ(collector().Describe().state, CollectorState::kFailed);
  EXPECT_EQ(collector().Report().state, CollectorState::kFailed);
}

TEST_F(NvmlCollectorTest, AGpuThatIsLostKeepsWhatItReported) {
  driver().Reset(2);
  Record();
  driver().Lose(1);
  const uint64_t calls = driver().Calls("nvmlDeviceGetMemoryInfo");
  ASSERT_TRUE(driver().AwaitCalls("nvmlDeviceGetMemoryInfo", calls + 6));
  (void)session().Drain();
  (void)session().Drain();
  session().Stop();
  session().ExpectIdentity();
  EXPECT_EQ(session().report().state, CollectorState::kDegraded);
  EXPECT_THAT(session().report().reason,
              AllOf(HasSubstr("GPU 1"), HasSubstr("fallen off the bus")));
  EXPECT_THAT(session().report().lost_by_cause, Contains(Pair(LossCause::kNvmlFailed, 1)));
  EXPECT_GT(session().Named("GPU 0 power (W)").size(), session().Named("GPU 1 power (W)").size());
  EXPECT_GE(session().Named("GPU 1 power (W)").size(), 5u);
}

TEST_F(NvmlCollectorTest, AValueThatCannotBeReadIsALoss) {
  driver().Fail("nvmlDeviceGetPowerUsage", 0, 999);
  Record();
  session().Stop();
  session().ExpectIdentity();
  EXPECT_EQ(session().report().state, CollectorState::kOn);
  EXPECT_GE(session().report().lost_by_cause.at(LossCause::kNvmlFailed), 5u);
  EXPECT_THAT(session().report().warnings, Contains(HasSubstr("nvmlDeviceGetPowerUsage: 999")));
  EXPECT_THAT(session().Named("GPU 0 power (W)"), IsEmpty());
}

TEST_F(NvmlCollectorTest, AHangInTheMiddleKeepsWhatThereIs) {
  options_.monitor.hangs_after = kHangsSoon;
  ExpectWithin(absl::Seconds(1), [this] {
    TearDown();  // what an earlier try left
    driver().Reset(1);
    Record();
    driver().Hang("nvmlDeviceGetClockInfo");
    EXPECT_TRUE(driver().AwaitHang());
    const absl::Time deadline = absl::Now() + kAwhile;
    while (collector().Describe().state == CollectorState::kOn && absl::Now() < deadline)
      std::this_thread::yield();
    (void)session().Drain();
    const absl::Time before = absl::Now();
    session().Stop();
    return absl::Now() - before;
  });
  session().ExpectIdentity();
  EXPECT_GE(session().report().events, 5u * kMetrics);
  EXPECT_EQ(session().report().state, CollectorState::kDegraded);
  EXPECT_THAT(session().report().reason, HasSubstr("nvmlDeviceGetClockInfo has not returned"));
  // The next capture reports it at once.
  driver_.reset();
  EXPECT_THAT(std::string(session().Arm().message()), HasSubstr("has not returned"));
}

TEST_F(NvmlCollectorTest, ADriverThatIsSlowToOpenIsSampledFromThenOn) {
  driver().Hang("nvmlInit_v2");
  options_.arm_waits = absl::Milliseconds(50);
  ASSERT_TRUE(session().Arm().ok());
  ASSERT_TRUE(session().Start().ok());
  driver().Release();
  ASSERT_TRUE(driver().AwaitCalls("nvmlDeviceGetMemoryInfo", 10));
  (void)session().Drain();
  session().Stop();
  session().ExpectIdentity();
  EXPECT_GT(session().report().events, 0u);
  EXPECT_EQ(session().report().state, CollectorState::kOn) << session().report().reason;
}

TEST_F(NvmlCollectorTest, ClocksThatHeatLimitsAreSaid) {
  driver().SetLimits(nvml::kLimitHardwareThermal | nvml::kLimitSoftwarePowerCap);
  Record();
  session().Stop();
  EXPECT_THAT(session().report().warnings,
              Contains(HasSubstr("GPU 0 had its clocks limited by heat")));
  const char* const kHeat = "GPU 0 clocks limited by heat";
  EXPECT_EQ(session().Named(kHeat).at(0).doubles.at(kHeat), 1);
}

TEST_F(NvmlCollectorTest, AFullStoreIsALossLikeOthers) {
  options_.monitor.every = absl::ZeroDuration();
  driver_ = std::make_unique<SessionDriver>(&collector(), kMonotonic, 1 << 20);
  ASSERT_TRUE(session().Arm().ok());
  ASSERT_TRUE(session().Start().ok());
  for (uint64_t i = 1; i <= 20; ++i) {
    ASSERT_TRUE(driver().AwaitCalls("nvmlDeviceGetTemperature", i * 1'000));
    (void)session().Drain();
  }
  session().Stop();
  session().ExpectIdentity();
  EXPECT_GT(session().report().lost_by_cause.at(LossCause::kStoreFull), 0u);
}

// The store is full while a GPU is first seen, and has room again later.
TEST_F(NvmlCollectorTest, CountersWithoutRoomAreLostUntilThereIsRoom) {
  for (const xspace::ItemKind refused : {xspace::ItemKind::kLine, xspace::ItemKind::kPlane}) {
    driver_ = std::make_unique<SessionDriver>(&collector(), kMonotonic);
    GatedSink sink(&session().store());
    xspace::Names names(&sink);
    session().request().sink = &sink;
    session().request().names = &names;
    sink.refused = {refused};
    Record();
    (void)session().Drain();  // adds what the first one took
    sink.refused.clear();
    const uint64_t before = driver().Calls("nvmlDeviceGetMemoryInfo");
    ASSERT_TRUE(driver().AwaitCalls("nvmlDeviceGetMemoryInfo", before + 4));
    session().Stop();
    session().ExpectIdentity();
    EXPECT_GT(session().report().lost_by_cause.at(LossCause::kStoreFull), 0u)
        << static_cast<int>(refused);
    const std::vector<ReadEvent> power = session().Named("GPU 0 power (W)");
    ASSERT_FALSE(power.empty()) << static_cast<int>(refused);
    EXPECT_EQ(power[0].plane, "/device:CUSTOM:NVML:0");
  }
}

TEST_F(NvmlCollectorTest, WhatDescribeTells) {
  driver().Reset(2);
  ASSERT_TRUE(session().Arm().ok());
  const v1::Gpus gpus = collector().Gpus();
  EXPECT_EQ(gpus.driver_version(), "580.65.06");
  EXPECT_EQ(gpus.cuda_version(), 13000u);
  EXPECT_EQ(gpus.chosen_by(), "all");
  EXPECT_EQ(gpus.reason(), "");
  ASSERT_EQ(gpus.gpus_size(), 2);
  EXPECT_EQ(gpus.gpus(1).name(), "Fake H100");
  EXPECT_EQ(gpus.gpus(1).uuid(), "GPU-" + FakeUuid(1));
  EXPECT_EQ(gpus.gpus(1).memory_used_bytes(), uint64_t{4} << 30);
  EXPECT_EQ(gpus.gpus(1).utilization_percent(), 11u);
  EXPECT_TRUE(gpus.gpus(1).has_utilization());
  EXPECT_FALSE(gpus.gpus(1).has_cuda_ordinal());
}

TEST(NvmlCollectorOptionsTest, TheEnvironmentIsReadAndWhatIsWrongIsIgnored) {
  const struct {
    const char* text;
    int milliseconds;
    bool off;
  } kCases[] = {{"250", 250, false}, {"10", 10, false},     {"0", 100, true},    {"9", 100, false},
                {"-5", 100, false},  {"60001", 100, false}, {"ten", 100, false}, {"", 100, false}};
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.text);
    ASSERT_EQ(setenv("JOBSCOPE_NVML_MS", c.text, 1), 0);
    const NvmlCollectorOptions options = NvmlCollectorOptions::FromEnvironment();
    EXPECT_EQ(options.monitor.every, absl::Milliseconds(c.milliseconds));
    EXPECT_EQ(options.off, c.off);
    EXPECT_EQ(options.monitor.library, nvml::kLibraryName);
  }
  unsetenv("JOBSCOPE_NVML_MS");
}

}  // namespace
}  // namespace jobscope
