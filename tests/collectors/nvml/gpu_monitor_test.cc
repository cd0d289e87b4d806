// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvml/gpu_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/collectors/nvml/fake_driver.h"

namespace jobscope::nvml {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kAwhile = absl::Seconds(60);

FakeDriver& driver() {
  static auto* const driver = new FakeDriver(FAKE_NVML);
  return *driver;
}

class GpuMonitorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.library = FAKE_NVML;
    options_.hangs_after = kAwhile;  // on a busy machine nothing hangs that only takes long
    driver().Reset(2);
  }
  void TearDown() override {
    driver().Release();
    monitor_.reset();
    Until([] { return driver().Open() == 0; });
  }
  GpuMonitor& monitor() {
    if (monitor_ == nullptr) monitor_ = std::make_unique<GpuMonitor>(options_);
    return *monitor_;
  }
  // Asks, and waits for the answer.
  Snapshot Look() {
    auto done = std::make_shared<absl::Notification>();
    if (monitor().Refresh(absl::ZeroDuration(), [done] { done->Notify(); })) {
      EXPECT_TRUE(done->WaitForNotificationWithTimeout(kAwhile));
    }
    return monitor().Latest();
  }
  template <typename Condition>
  static void Until(Condition condition) {
    const absl::Time deadline = absl::Now() + kAwhile;
    while (!condition() && absl::Now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(condition());
  }
  static std::vector<std::string> Uuids(const Snapshot& snapshot) {
    std::vector<std::string> uuids;
    for (const Snapshot::Entry& entry : snapshot.gpus) uuids.push_back(entry.gpu->uuid);
    return uuids;
  }

  MonitorOptions options_;
  std::unique_ptr<GpuMonitor> monitor_;
};

TEST_F(GpuMonitorTest, NothingIsOpenedBeforeSomebodyAsks) {
  EXPECT_EQ(monitor().Latest().state, Snapshot::kUnknown);
  EXPECT_EQ(monitor().Hang(), "");
  EXPECT_EQ(driver().Calls(""), 0u);
}

TEST_F(GpuMonitorTest, TellsWhatEachGpuIsAndDoes) {
  const Snapshot snapshot = Look();
  EXPECT_EQ(snapshot.state, Snapshot::kKnown);
  EXPECT_EQ(snapshot.driver_version, "580.65.06");
  EXPECT_EQ(snapshot.cuda_version, 13000);
  EXPECT_EQ(snapshot.chosen_by, "all");
  EXPECT_THAT(snapshot.notes, IsEmpty());
  ASSERT_EQ(snapshot.gpus.size(), 2u);
  const Gpu& gpu = *snapshot.gpus[1].gpu;
  EXPECT_EQ(gpu.name, "Fake H100");
  EXPECT_EQ(gpu.uuid, "GPU-" + FakeUuid(1));
  EXPECT_EQ(gpu.pci_bus_id, "00000000:11:00.0");
  EXPECT_EQ(gpu.index, 1u);
  EXPECT_FALSE(gpu.ordinal.has_value());
  EXPECT_EQ(gpu.compute_major, 9);
  const Reading& reading = snapshot.gpus[1].reading;
  EXPECT_EQ(reading.utilization_percent, 11u);
  EXPECT_EQ(reading.memory_utilization_percent, 21u);
  EXPECT_EQ(reading.memory_used_bytes, uint64_t{4} << 30);
  EXPECT_EQ(reading.memory_total_bytes, uint64_t{80} << 30);
  EXPECT_EQ(reading.power_milliwatts, 350'501u);
  EXPECT_EQ(reading.sm_clock_mhz, 1980u);
  EXPECT_EQ(reading.memory_clock_mhz, 2619u);
  EXPECT_EQ(reading.temperature_celsius, 54u);
  EXPECT_EQ(reading.limits, 0u);
  EXPECT_EQ(reading.failed, 0u);
}

TEST_F(GpuMonitorTest, OnlyTheGpusOfThisProcess) {
  driver().Reset(4);
  options_.cuda_devices = [] { return std::vector<std::string>{FakeUuid(3), FakeUuid(1)}; };
  const Snapshot snapshot = Look();
  EXPECT_EQ(snapshot.chosen_by, "CUDA");
  EXPECT_THAT(Uuids(snapshot), ElementsAre("GPU-" + FakeUuid(3), "GPU-" + FakeUuid(1)));
  EXPECT_EQ(snapshot.gpus[0].gpu->ordinal, 0u);
  EXPECT_EQ(snapshot.gpus[0].gpu->index, 3u);
  EXPECT_EQ(snapshot.gpus[0].gpu->number(), 0u);
  // The others were not touched.
  EXPECT_EQ(driver().Calls("nvmlDeviceGetHandleByIndex_v2"), 0u);
}

TEST_F(GpuMonitorTest, VisibleDevicesDecideWhereCudaIsNotInUse) {
  driver().Reset(4);
  options_.cuda_devices = [] { return std::nullopt; };
  const struct {
    const char* visible;
    std::vector<std::string> uuids;
  } kCases[] = {
      {"2,0", {"GPU-" + FakeUuid(2), "GPU-" + FakeUuid(0)}},
      {"1,9,0", {"GPU-" + FakeUuid(1)}},  // one that is not there ends the list
      {"GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae03", {"GPU-" + FakeUuid(3)}},
      {"GPU-a0a1", {"GPU-" + FakeUuid(0)}},
      {"", {}},
      {"-1", {}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.visible);
    options_.visible_devices = c.visible;
    monitor_.reset();
    const Snapshot snapshot = Look();
    EXPECT_EQ(snapshot.chosen_by, "CUDA_VISIBLE_DEVICES");
    EXPECT_EQ(Uuids(snapshot), c.uuids);
    if (!c.uuids.empty()) continue;
    EXPECT_EQ(snapshot.state, Snapshot::kAbsent);
    EXPECT_THAT(snapshot.reason, HasSubstr("CUDA_VISIBLE_DEVICES"));
  }
}

TEST_F(GpuMonitorTest, AnInstanceHasItsOwnMemoryAndTheClocksOfItsGpu) {
  driver().AddMig(0x77);
  options_.cuda_devices = [] { return std::vector<std::string>{FakeUuid(0x77)}; };
  const Snapshot snapshot = Look();
  ASSERT_THAT(Uuids(snapshot), ElementsAre("MIG-" + FakeUuid(0x77)));
  EXPECT_TRUE(snapshot.gpus[0].gpu->is_mig);
  EXPECT_EQ(snapshot.gpus[0].gpu->name, "Fake H100 MIG 1g.10gb");
  EXPECT_EQ(snapshot.gpus[0].reading.memory_total_bytes, uint64_t{10} << 30);
  EXPECT_EQ(snapshot.gpus[0].reading.sm_clock_mhz, 1980u);
  EXPECT_FALSE(snapshot.gpus[0].reading.utilization_percent.has_value());
  EXPECT_EQ(snapshot.gpus[0].reading.failed, 0u);
  // The same by the environment.
  options_.cuda_devices = nullptr;
  options_.visible_devices = "MIG-" + FakeUuid(0x77);
  monitor_.reset();
  EXPECT_THAT(Uuids(Look()), ElementsAre("MIG-" + FakeUuid(0x77)));
}

TEST_F(GpuMonitorTest, GpusThatComeIntoUseAreFoundAnew) {
  std::atomic<bool> in_use{false};
  options_.cuda_devices = [&in_use]() -> std::optional<std::vector<std::string>> {
    if (!in_use) return std::nullopt;
    return std::vector<std::string>{FakeUuid(1)};
  };
  EXPECT_EQ(Look().gpus.size(), 2u);
  in_use = true;
  const Snapshot snapshot = Look();
  EXPECT_EQ(snapshot.chosen_by, "CUDA");
  EXPECT_THAT(Uuids(snapshot), ElementsAre("GPU-" + FakeUuid(1)));
  monitor_.reset();
}

// CUPTI traces the queries, and gives each thread that makes some a buffer of its own.
TEST_F(GpuMonitorTest, CudaIsAskedUntilItReportsItsGpus) {
  options_.linger = absl::ZeroDuration();
  int queries = 0;
  options_.cuda_devices = [&queries]() -> std::optional<std::vector<std::string>> {
    if (++queries < 3) return std::nullopt;
    return std::vector<std::string>{FakeUuid(1)};
  };
  for (int i = 0; i < 6; ++i) {
    const Snapshot snapshot = Look();
    EXPECT_EQ(snapshot.chosen_by, i < 2 ? "all" : "CUDA");
    EXPECT_EQ(snapshot.gpus.size(), i < 2 ? 2u : 1u);
    // Closed, it finds the GPUs anew.
    Until([] { return driver().Open() == 0; });
  }
  EXPECT_TRUE(monitor().Prepare(kAwhile));
  EXPECT_EQ(queries, 3);
}

TEST_F(GpuMonitorTest, AnAbsentDriverIsTriedOnceAndRemembered) {
  options_.library = "libjobscope-there-is-no-such-driver.so.1";
  const Snapshot snapshot = Look();
  EXPECT_EQ(snapshot.state, Snapshot::kAbsent);
  EXPECT_THAT(snapshot.reason, AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("no-such-driver")));
  // Nothing to wait for any more.
  EXPECT_FALSE(monitor().Refresh(absl::ZeroDuration(), [] { FAIL(); }));
  EXPECT_TRUE(monitor().Prepare(absl::ZeroDuration()));
  monitor().StartSampling(false);
  monitor().StopSampling();
  EXPECT_THAT(monitor().TakeSamples(), IsEmpty());
}

TEST_F(GpuMonitorTest, AnAbsentDriverIsTriedAgainAfterAWhile) {
  driver().Fail("nvmlInit_v2", -1, kDriverNotLoaded);
  options_.retry_after = absl::ZeroDuration();
  EXPECT_EQ(Look().state, Snapshot::kAbsent);
  driver().Reset(1);
  EXPECT_EQ(Look().state, Snapshot::kKnown);
}

TEST_F(GpuMonitorTest, EveryResultOfTheFirstCallHasItsText) {
  const struct {
    int32_t result;
    Snapshot::State state;
    const char* text;
  } kCases[] = {
      {kDriverNotLoaded, Snapshot::kAbsent, "no NVIDIA driver"},
      {kGpuNotFound, Snapshot::kAbsent, "no GPU"},
      {kNoPermission, Snapshot::kFailed, "/dev/nvidiactl"},
      {kVersionMismatch, Snapshot::kFailed, "reload it or reboot"},
      {kGpuIsLost, Snapshot::kFailed, "fallen off the bus"},
      {17, Snapshot::kFailed, "cgroup"},
      {999, Snapshot::kFailed, "Xid"},
      {77, Snapshot::kFailed, "nvmlInit_v2: 77"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.result);
    driver().Reset(2);
    driver().Fail("nvmlInit_v2", -1, c.result);
    monitor_.reset();
    const Snapshot snapshot = Look();
    EXPECT_EQ(snapshot.state, c.state);
    EXPECT_THAT(snapshot.reason, AllOf(HasSubstr(c.text), HasSubstr(std::to_string(c.result))));
  }
}

TEST_F(GpuMonitorTest, ALibraryThatIsNoNvmlIsSaid) {
  options_.library = "libm.so.6";
  const Snapshot snapshot = Look();
  EXPECT_EQ(snapshot.state, Snapshot::kFailed);
  EXPECT_THAT(snapshot.reason, HasSubstr("libm.so.6 lacks nvmlInit_v2"));
}

TEST_F(GpuMonitorTest, WhatAnOldDriverDoesNotTellIsLeftOut) {
  static auto* const bare = new FakeDriver(FAKE_NVML_BARE);
  bare->Reset(1);
  options_.library = FAKE_NVML_BARE;
  options_.cuda_devices = [] { return std::vector<std::string>{FakeUuid(0)}; };
  const Snapshot snapshot = Look();
  ASSERT_EQ(snapshot.gpus.size(), 1u) << snapshot.reason;
  EXPECT_EQ(snapshot.gpus[0].gpu->name, "Fake H100");
  EXPECT_FALSE(snapshot.gpus[0].reading.power_milliwatts.has_value());
  EXPECT_EQ(snapshot.gpus[0].reading.failed, 0u);
  EXPECT_EQ(snapshot.driver_version, "");
}

TEST_F(GpuMonitorTest, ADriverBefore535TellsItsLimitsByTheirOldName) {
  static auto* const old = new FakeDriver(FAKE_NVML_530);
  old->Reset(1);
  old->SetLimits(4);
  options_.library = FAKE_NVML_530;
  EXPECT_EQ(Look().gpus.at(0).reading.limits, 4u);
}

TEST_F(GpuMonitorTest, AGpuThatCannotBeAskedDoesNotHideTheOthers) {
  driver().Fail("nvmlDeviceGetHandleByIndex_v2", 0, 999);
  const Snapshot snapshot = Look();
  EXPECT_EQ(snapshot.state, Snapshot::kKnown);
  EXPECT_THAT(Uuids(snapshot), ElementsAre("GPU-" + FakeUuid(1)));
  EXPECT_THAT(snapshot.notes, ElementsAre(HasSubstr("Cannot read GPU 0: ")));
}

TEST_F(GpuMonitorTest, WhatAGpuDoesNotHaveIsAskedOnce) {
  driver().Reset(1);
  driver().Fail("nvmlDeviceGetPowerUsage", 0, kNotSupported);
  EXPECT_FALSE(Look().gpus.at(0).reading.power_milliwatts.has_value());
  EXPECT_EQ(Look().gpus.at(0).reading.failed, 0u);
  EXPECT_EQ(driver().Calls("nvmlDeviceGetPowerUsage"), 1u);
}

TEST_F(GpuMonitorTest, ACallThatHangsIsReportedAndHoldsNobodyUp) {
  options_.hangs_after = absl::Milliseconds(50);
  for (const char* const function :
       {"nvmlInit_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetPowerUsage"}) {
    SCOPED_TRACE(function);
    driver().Reset(2);
    monitor_.reset();
    driver().Hang(function);
    auto done = std::make_shared<absl::Notification>();
    EXPECT_TRUE(monitor().Refresh(absl::ZeroDuration(), [done] { done->Notify(); }));
    EXPECT_TRUE(driver().AwaitHang());
    Until([this] { return !monitor().Hang().empty(); });
    // Without a time, which would make the lists of all workers differ.
    EXPECT_EQ(monitor().Hang(),
              absl::StrCat(function, " has not returned; the job is not affected"));
    const absl::Time begin = absl::Now();
    EXPECT_FALSE(monitor().Refresh(absl::ZeroDuration(), [] { FAIL(); }));
    EXPECT_FALSE(monitor().Prepare(kAwhile));
    (void)monitor().Latest();
    EXPECT_LT(absl::Now() - begin, kAwhile);
    EXPECT_FALSE(done->HasBeenNotified());
    driver().Release();
    // It goes on where it was.
    EXPECT_TRUE(done->WaitForNotificationWithTimeout(kAwhile));
    EXPECT_EQ(monitor().Hang(), "");
    EXPECT_EQ(monitor().Latest().gpus.size(), 2u);
  }
}

TEST_F(GpuMonitorTest, AMonitorThatIsGoneDoesNotWaitForItsHangingCall) {
  driver().Hang("nvmlInit_v2");
  EXPECT_TRUE(monitor().Refresh(absl::ZeroDuration(), [] {}));
  EXPECT_TRUE(driver().AwaitHang());
  monitor_.reset();
  // Its thread ends what it had begun, and gives the driver up.
  driver().Release();
  EXPECT_TRUE(driver().AwaitCalls("nvmlShutdown", 1));
}

TEST_F(GpuMonitorTest, IdleItGivesTheDriverUp) {
  options_.linger = absl::ZeroDuration();
  EXPECT_EQ(Look().gpus.size(), 2u);
  Until([] { return driver().Open() == 0; });
  // And takes it up again.
  EXPECT_EQ(Look().gpus.size(), 2u);
  Until([] { return driver().Open() == 0; });
  const uint64_t calls = driver().Calls("");
  EXPECT_EQ(monitor().Latest().gpus.size(), 2u);
  EXPECT_EQ(driver().Calls(""), calls);
}

TEST_F(GpuMonitorTest, FreshAnswersAreNotAskedForAgain) {
  (void)Look();
  const uint64_t calls = driver().Calls("");
  EXPECT_FALSE(monitor().Refresh(absl::Hours(1), [] { FAIL(); }));
  EXPECT_EQ(driver().Calls(""), calls);
}

TEST_F(GpuMonitorTest, SamplesComeUntilTheyAreStopped) {
  options_.every = absl::Milliseconds(1);
  EXPECT_TRUE(monitor().Prepare(kAwhile));
  monitor().StartSampling(false);
  std::vector<Sample> samples;
  Until([&] {
    for (Sample& sample : monitor().TakeSamples()) samples.push_back(std::move(sample));
    return samples.size() >= 20;
  });
  monitor().StopSampling();
  for (size_t i = 2; i < samples.size(); ++i) EXPECT_GT(samples[i].ticks, samples[i - 2].ticks);
  // One round may still be running when Stop comes.
  (void)monitor().TakeSamples();
  const Snapshot after = Look();
  EXPECT_EQ(after.gpus.size(), 2u);
  EXPECT_THAT(monitor().TakeSamples(), IsEmpty());
}

TEST_F(GpuMonitorTest, SamplesThatNobodyTakesAreBounded) {
  driver().Reset(16);
  options_.every = absl::ZeroDuration();
  EXPECT_TRUE(monitor().Prepare(kAwhile));
  monitor().StartSampling(false);
  Until([this] { return monitor().Counts().forgotten > 0; });
  monitor().StopSampling();
  EXPECT_LE(monitor().TakeSamples().size(), 9'600u);
}

TEST_F(GpuMonitorTest, ManyAskAtOnce) {
  options_.linger = absl::ZeroDuration();
  (void)monitor();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 50; ++i) (void)Look();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(monitor().Latest().gpus.size(), 2u);
}

}  // namespace
}  // namespace jobscope::nvml
