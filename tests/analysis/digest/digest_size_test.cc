// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

class DigestSizeTest : public RunFixture {};

// Two seconds of 200 steps, each with five collectives of several buckets, and samples of a GPU.
TEST_F(DigestSizeTest, AnOrdinaryWorkerTakesLessThan200KiB) {
  TraceFile trace;
  for (int step = 0; step < 200; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10, {{"cpu_ns", 7'654'321}, {"run_delay_ns", 123'456}});
    trace.Input(begin_ms, begin_ms + 0.7);
    trace.Event("forward", begin_ms + 0.7, begin_ms + 9.3);
    for (int i = 0; i < 40; ++i) {
      const double at_ms = begin_ms + 0.8 + i * 0.2;
      trace.Event("aten::an_operator_with_a_name_" + std::to_string(i * 7 % 300), at_ms,
                  at_ms + 0.11);
      trace.Kernel("void at::native::elementwise_kernel_" + std::to_string(i * 11 % 200), at_ms,
                   at_ms + 0.09 + 0.001 * (step % 7), 7 + i % 3);
    }
    for (int c = 0; c < 5; ++c) {
      trace.AllReduce(5 * step + c, begin_ms + 1.1 * c + 2.013, begin_ms + 1.1 * c + 2.917);
    }
    for (const char* counter : {"utilization (%)", "memory used (MiB)", "power (W)",
                                "SM clock (MHz)", "temperature (C)"}) {
      trace.GpuCounter(counter, begin_ms, 1234.5678 + step);
    }
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  const v1::Digest& digest = digests->workers.front();
  ASSERT_EQ(digest.collectives().name_size(), 1000);
  EXPECT_LT(digest.ByteSizeLong(), 200u << 10);
}

}  // namespace
}  // namespace jobscope::analysis
