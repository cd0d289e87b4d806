// SPDX-License-Identifier: Apache-2.0
//
// Tests the reason that each result of CUPTI leads to: in `capture check`, in the manifest (whose
// reasons the table shows), and in the trace. The host's part is complete in each case.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "collectors/cuda/libraries/result_text.h"
#include "common/run/manifest.h"
#include "common/xspace/assemble/assembler.h"
#include "tensorflow/xplane.pb.h"
#include "tests/collectors/cuda/collector_fixture.h"
#include "tests/server/session/session_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

struct StringSink : xspace::ByteSink {
  absl::Status Write(std::string_view bytes, bool /*stable*/) override {
    text.append(bytes);
    return absl::OkStatus();
  }
  std::string text;
};

tensorflow::profiler::XSpace Trace(const SessionResult& result) {
  xspace::AssembleOptions options;
  options.hostname = "host";
  auto assembler = xspace::Assembler::Create(result.store->Items(), options);
  StringSink sink;
  tensorflow::profiler::XSpace space;
  EXPECT_TRUE(assembler.ok() && assembler->Write(0, &sink).ok() &&
              space.ParseFromString(sink.text));
  return space;
}

class CudaReasonsTest : public SessionTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    options_.cupti_library = UseVersion(130001);
    options_.finalize = cuda::FinalizeChoice::kNever;
    options_.limits.work_in_flight = absl::Milliseconds(10);
    collector_ = std::make_unique<CudaCollector>(/*uses_tsc=*/true, options_);
    Make({&a_, collector_.get()});
  }
  void TearDown() override {
    EXPECT_TRUE(manager_->Shutdown(absl::Seconds(10)));
    gpu().Release();
  }
  SessionResult Capture() { return Submit(For(absl::Milliseconds(10))).Get(); }

  // Expects `state`, and a reason with this text, everywhere; collector "a" is not affected.
  void ExpectReported(const std::string& state, const std::string& text) {
    const SessionResult result = Capture();
    ASSERT_TRUE(result.status.ok()) << result.status;
    // The manifest, and so the table.
    ManifestWorker worker;
    FillFromSummary(result.summary, &worker);
    ASSERT_EQ(worker.collectors.size(), 2u);
    EXPECT_EQ(worker.collectors[0].state.name(), "on");
    EXPECT_EQ(worker.collectors[0].events, 1u);
    EXPECT_EQ(worker.collectors[1].state.name(), state);
    EXPECT_THAT(worker.collectors[1].reason, HasSubstr(text));
    // `capture check`.
    const std::vector<v1::CollectorState> states = manager_->DescribeCollectors();
    ASSERT_EQ(states.size(), 2u);
    EXPECT_EQ(states[1].state(), state);
    EXPECT_THAT(states[1].reason(), HasSubstr(text));
    // The trace: a collector that is off causes no warning; the summary has its reason.
    const tensorflow::profiler::XSpace space = Trace(result);
    if (state != "off") {
      const std::vector<std::string> warnings(space.warnings().begin(), space.warnings().end());
      EXPECT_THAT(warnings,
                  Contains(AllOf(HasSubstr("collector cuda is " + state), HasSubstr(text))));
    }
    EXPECT_THAT(space.SerializeAsString(), HasSubstr(text));
  }

  CudaCollectorOptions options_;
  std::unique_ptr<CudaCollector> collector_;
};

TEST_P(CudaReasonsTest, IsReportedEverywhereWithItsTextAndRemedy) {
  const int result = GetParam();
  gpu().Fail("cuptiSubscribe", result, 0);
  const cuda::ResultText* const known = cuda::FindResultText(result);
  ASSERT_NE(known, nullptr);
  const std::string number = "cuptiSubscribe: " + std::to_string(result) + " ";
  ExpectReported("failed", std::string(known->text));
  ExpectReported("failed", std::string(known->remedy));
  ExpectReported("failed",
                 number + std::string(known->name) + ", CUPTI 13.0.1, driver for CUDA 13.0");
  // A failure that is over is not reported any more.
  gpu().Reset(130001);
  const SessionResult good = Capture();
  EXPECT_EQ(good.summary.collectors(1).state(), "on") << good.summary.collectors(1).reason();
  EXPECT_EQ(manager_->DescribeCollectors()[1].state(), "on");
}

// All that facts of CUPTI's behaviour name as seen in practice; 39 has a test of its own, because
// the fake answers it by itself.
INSTANTIATE_TEST_SUITE_P(EveryResult, CudaReasonsTest,
                         ::testing::Values(1, 2, 7, 8, 11, 12, 14, 15, 21, 23, 26, 27, 33, 35, 36,
                                           38, 39, 40, 41, 42, 43, 44, 45, 999));

using CudaOtherReasonsTest = CudaReasonsTest;

TEST_F(CudaOtherReasonsTest, AnotherProfilerByItsName) {
  gpu().SetOwner("Nsight Systems");
  ExpectReported("failed", "already being profiled by Nsight Systems");
}

TEST_F(CudaOtherReasonsTest, AResultThatNobodyKnows) {
  gpu().Fail("cuptiSubscribe", 4711, 0);
  ExpectReported("failed", "cuptiSubscribe: 4711, CUPTI");
}

TEST_F(CudaOtherReasonsTest, ALostDevice) {
  gpu().SetDriver(999, 0, 13000);
  ExpectReported("failed", "a GPU may have been lost");
}

TEST_F(CudaOtherReasonsTest, CudaNotInUse) {
  gpu().SetDriver(3, 1, 13000);
  const SessionResult result = Capture();
  EXPECT_EQ(result.summary.collectors(1).state(), "off");
  EXPECT_THAT(result.summary.collectors(1).reason(), HasSubstr("has not used CUDA"));
  EXPECT_THAT(Trace(result).SerializeAsString(), HasSubstr("has not used CUDA"));
}

// A kind of record that is refused costs that kind only, and is a warning in the trace.
TEST_F(CudaOtherReasonsTest, AKindThatIsRefused) {
  for (const int refused : {11, 21, 27}) {
    SCOPED_TRACE(refused);
    gpu().Reset(130001);
    gpu().Fail("cuptiActivityEnable:49", refused, 0);
    const SessionResult result = Capture();
    EXPECT_EQ(result.summary.collectors(1).state(), "on");
    const tensorflow::profiler::XSpace space = Trace(result);
    const std::vector<std::string> warnings(space.warnings().begin(), space.warnings().end());
    EXPECT_THAT(warnings, Contains(HasSubstr("memory allocations are not traced")));
  }
}

// The end must not be hidden by what goes wrong in it.
TEST_F(CudaOtherReasonsTest, AResultAtTheEnd) {
  gpu().Fail("cuptiActivityFlushAll", 8, 0);
  const SessionResult result = Capture();
  const tensorflow::profiler::XSpace space = Trace(result);
  const std::vector<std::string> warnings(space.warnings().begin(), space.warnings().end());
  EXPECT_THAT(warnings,
              Contains(AllOf(HasSubstr("records may be missing"), HasSubstr("8 OUT_OF"))));
}

}  // namespace
}  // namespace jobscope
