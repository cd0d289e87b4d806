// SPDX-License-Identifier: Apache-2.0
#include "collectors/system/system_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/collectors/gated_sink.h"
#include "tests/collectors/host/session_driver.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::Key;

constexpr bool kMonotonic = false;

// Keeps one core busy for this much CPU time of the process.
void Burn(uint64_t cpu_ns) {
  const ProcessUsageReader usage;
  const uint64_t until = usage.Read().cpu_ns + cpu_ns;
  while (usage.Read().cpu_ns < until) {
  }
}

TEST(ProcessUsageTest, CpuAndMemoryGrowWithUse) {
  const ProcessUsageReader usage;
  const ProcessSample before = usage.Read();
  ASSERT_TRUE(before.rss_bytes.has_value());
  constexpr size_t kBytes = 64 << 20;
  const std::unique_ptr<char[]> memory(new char[kBytes]);
  std::memset(memory.get(), 1, kBytes);
  asm volatile("" : : "r"(memory.get()) : "memory");  // or clang removes it
  const ProcessSample after = usage.Read();
  EXPECT_GE(*after.rss_bytes, *before.rss_bytes + kBytes / 2);
  EXPECT_GT(after.cpu_ns, before.cpu_ns);
}

TEST(SystemCollectorTest, SamplesAreCountersOfTheHostPlane) {
  SystemCollector collector(kMonotonic);
  SessionDriver session(&collector, kMonotonic);
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(session.Drain(), absl::Milliseconds(100));
    Burn(10'000'000);
  }
  const uint64_t end = session.Now();
  session.StopAt(end);
  session.ExpectIdentity();
  EXPECT_GE(session.report().events, 4u);
  const std::vector<ReadEvent> cpu = session.Named("process CPU (%)");
  ASSERT_GE(cpu.size(), 2u);
  for (const ReadEvent& sample : cpu) {
    EXPECT_EQ(sample.plane, "/host:CPU");
    EXPECT_EQ(sample.line, "_counters_");
    ASSERT_THAT(sample.doubles, Contains(Key("process CPU (%)")));
    EXPECT_GT(sample.doubles.at("process CPU (%)"), 0);
    EXPECT_LE(sample.start_ps, session.map().ToPs(end));
  }
  for (const ReadEvent& sample : session.Named("process RSS (MiB)")) {
    EXPECT_GT(sample.doubles.at("process RSS (MiB)"), 1);
  }
}

TEST(SystemCollectorTest, PageFaultsAreARate) {
  SystemCollector collector(kMonotonic);
  SessionDriver session(&collector, kMonotonic);
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  constexpr size_t kBytes = 64 << 20;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(madvise(memory, kBytes, MADV_NOHUGEPAGE), 0);
  std::memset(memory, 1, kBytes);
  Burn(10'000'000);
  session.Drain();
  munmap(memory, kBytes);
  session.Stop();
  session.ExpectIdentity();
  double most = 0;
  for (const ReadEvent& sample : session.Named("page faults (1/s)")) {
    most = std::max(most, sample.doubles.at("page faults (1/s)"));
  }
  EXPECT_GT(most, 0);
  EXPECT_FALSE(session.Named("major page faults (1/s)").empty());
}

TEST(SystemCollectorTest, NothingIsSampledBeforeTheWindow) {
  SystemCollector collector(kMonotonic);
  SessionDriver session(&collector, kMonotonic);
  ASSERT_TRUE(session.Arm().ok());
  const uint64_t start = session.Now() + 3'600'000'000'000;
  ASSERT_TRUE(session.StartAt(start).ok());
  session.Drain();
  session.Drain();
  session.StopAt(start);
  session.ExpectIdentity();
  EXPECT_EQ(session.report().attempted, 0u);
}

// The rate is computed over the time in which the CPU was used, also beyond the window's end.
TEST(SystemCollectorTest, AStopThatComesLateIsNoLoad) {
  SystemCollector collector(kMonotonic);
  SessionDriver session(&collector, kMonotonic);
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  const uint64_t start = session.Now();
  Burn(20'000'000);
  const uint64_t end = start + (session.Now() - start) / 2;
  Burn(180'000'000);
  session.StopAt(end);
  session.ExpectIdentity();
  const ReadEvent cpu = session.One("process CPU (%)");
  EXPECT_LE(cpu.start_ps, session.map().ToPs(end));
  EXPECT_LT(cpu.doubles.at("process CPU (%)"), 150) << "one thread ran";
}

// The store is full while the capture begins, and has room again later.
TEST(SystemCollectorTest, CountersWithoutRoomAreLostUntilThereIsRoom) {
  for (const xspace::ItemKind refused :
       {xspace::ItemKind::kPlane, xspace::ItemKind::kLine, xspace::ItemKind::kNames}) {
    SystemCollector collector(kMonotonic);
    SessionDriver session(&collector, kMonotonic);
    GatedSink sink(&session.store());
    xspace::Names names(&sink);
    session.request().sink = &sink;
    session.request().names = &names;
    ASSERT_TRUE(session.Arm().ok());
    sink.refused = {refused};
    ASSERT_TRUE(session.Start().ok());
    session.Drain();
    Burn(10'000'000);
    session.Drain();  // adds the first sample
    sink.refused.clear();
    Burn(10'000'000);
    session.Stop();
    session.ExpectIdentity();
    EXPECT_GT(session.report().lost_by_cause.at(LossCause::kStoreFull), 0u)
        << static_cast<int>(refused);
    EXPECT_FALSE(session.Named("process CPU (%)").empty()) << static_cast<int>(refused);
  }
}

TEST(SystemCollectorTest, IsOffWithTheHost) {
  SystemCollector collector(kMonotonic);
  SessionDriver session(&collector, kMonotonic);
  session.request().recording.host_tracer_level = 0;
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  EXPECT_EQ(session.Drain(), absl::InfiniteDuration());
  session.Stop();
  EXPECT_EQ(session.report().state, CollectorState::kOff);
  EXPECT_EQ(session.report().reason, "host_tracer_level is 0");
  EXPECT_TRUE(session.events_read().empty());
}

TEST(SystemCollectorTest, SurvivesASessionWithoutAStart) {
  SystemCollector collector(kMonotonic);
  SessionDriver session(&collector, kMonotonic);
  ASSERT_TRUE(session.Arm().ok());
  session.Stop();
  EXPECT_EQ(session.report().attempted, 0u);
}

}  // namespace
}  // namespace jobscope
