// SPDX-License-Identifier: Apache-2.0
//
// Memory by allocator, from events to the report.
#include "analysis/trace/allocator_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/output/report_html.h"
#include "analysis/output/report_text.h"
#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

Allocator::Event Use(int64_t time_ns, int64_t in_use) {
  Allocator::Event event;
  event.time_ns = time_ns;
  event.is_allocation = true;
  event.in_use = in_use;
  return event;
}

TEST(AllocatorTest, AnyOrderGivesTheSamePoints) {
  Allocator forward;
  Allocator backward;
  constexpr int kEvents = 10000;
  for (int i = 0; i < kEvents; ++i) {
    forward.Add(Use(i * int64_t{1'000'000}, i));
    backward.Add(Use((kEvents - 1 - i) * int64_t{1'000'000}, kEvents - 1 - i));
  }
  EXPECT_EQ(forward.Points(), backward.Points());
  EXPECT_LE(forward.Points().size(), Allocator::kMaxPoints);
  EXPECT_GE(forward.Points().size(), Allocator::kMaxPoints / 2);
  for (const Allocator* allocator : {&forward, &backward}) {
    EXPECT_EQ(allocator->in_use(), kEvents - 1);
    EXPECT_EQ(allocator->peak(), kEvents - 1);
  }
}

TEST(AllocatorTest, AShortPeakStays) {
  Allocator allocator;
  for (int i = 0; i < 5000; ++i) {
    allocator.Add(Use(i * int64_t{1'000'000}, i == 1234 ? 900 : 10));
  }
  bool peak = false;
  for (const auto& [time_ns, in_use] : allocator.Points()) peak = peak || in_use == 900;
  EXPECT_TRUE(peak);
}

class MemoryTest : public RunFixture {};

// Two threads; the one whose line is read first ends last.
TEST_F(MemoryTest, AllocatorsOfEachWorkerAreReported) {
  TraceFile trace;
  for (int step = 0; step < 10; ++step) trace.Step(step, step * 10, step * 10 + 10);
  trace.Allocation("GPU_0_bfc", 5, 100 * kMiB, 700 * kMiB, 60 * kMiB, "MatMul", 1);
  trace.Allocation("GPU_0_bfc", 95, 50 * kMiB, 700 * kMiB, -250 * kMiB, "", 1);
  trace.Allocation("GPU_0_bfc", 50, 300 * kMiB, 700 * kMiB, 200 * kMiB, "Conv2D", 2);
  trace.Event("MemoryAllocation", 60, 60);  // says nothing
  trace.Counter("process RSS (MiB)", 10, 2000);
  trace.Counter("loss", 10, 0.5);
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json report = ReportOfRun();
  ASSERT_EQ(report["allocators"].size(), 1u) << report["allocators"];
  EXPECT_EQ(report["allocators"][0], json({{"name", "GPU_0_bfc"},
                                           {"worker", "w0"},
                                           {"allocations", 2},
                                           {"deallocations", 1},
                                           {"in_use_bytes", 50 * kMiB},
                                           {"peak_bytes", 300 * kMiB},
                                           {"process_peak_bytes", 700 * kMiB},
                                           {"reserved_bytes", 0},
                                           {"limit_bytes", int64_t{1} << 34},
                                           {"largest_bytes", 200 * kMiB},
                                           {"largest_operation", "Conv2D"}}));
  const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  const Report reduced = Reduce(*digests);
  EXPECT_THAT(ReportText(reduced), HasSubstr("allocator GPU_0_bfc (MiB)"));
  const std::string page = ReportHtml(reduced);
  const size_t memory = page.find("id=memory-table");
  const size_t counters = page.find("id=counter-table");
  ASSERT_NE(memory, std::string::npos);
  ASSERT_NE(counters, std::string::npos);
  EXPECT_LT(memory, page.find("process RSS (MiB)</td>"));
  EXPECT_LT(page.find("process RSS (MiB)</td>"), counters);
  EXPECT_LT(counters, page.find("<td class=text>loss</td>"));
}

}  // namespace
}  // namespace jobscope::analysis
