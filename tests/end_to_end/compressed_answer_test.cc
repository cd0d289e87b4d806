// SPDX-License-Identifier: Apache-2.0
//
// Answers that would fill the operator's memory are refused, cheaply, and the outcome says why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/end_to_end/hostile_workers.h"
#include "tests/subprocess.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kMiB = size_t{1} << 20;
// Of the program without any answer 30 to 40 MiB, with sanitizers more.
constexpr size_t kMaxPeakBytes = 120 * kMiB;

struct Result {
  int exit_code = -1;
  size_t peak_bytes = 0;
  nlohmann::json worker;
};

Result RunCapture(const std::string& verb, const std::string& address,
                  std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {CAPTURE_PROGRAM};
  if (!verb.empty()) arguments.push_back(verb);
  arguments.push_back("--service_addr=" + address);
  arguments.emplace_back("--json");
  arguments.insert(arguments.end(), more.begin(), more.end());
  Subprocess program(arguments);
  Result result;
  result.exit_code = program.Wait();
  result.peak_bytes = program.peak_bytes();
  const auto manifest = nlohmann::json::parse(program.out(), nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(manifest.is_object()) << program.out() << program.err();
  if (manifest.is_object()) result.worker = manifest["workers"][0];
  return result;
}

TEST(CompressionBombTest, ACompressedAnswerIsNoStockWorker) {
  const CompressingWorker hostile(48 * kMiB);
  for (const char* verb : {"check", "stop"}) {
    const Result result = RunCapture(verb, hostile.address());
    EXPECT_EQ(result.exit_code, 4) << verb;
    EXPECT_EQ(result.worker["outcome"], "failed") << verb;
    EXPECT_THAT(result.worker.value("reason", ""), HasSubstr("compresses")) << verb;
    EXPECT_LT(result.peak_bytes, kMaxPeakBytes) << verb;
  }
}

TEST(CompressionBombTest, ACompressedAnswerEndsACapture) {
  const CompressingWorker hostile(48 * kMiB);
  std::string logdir = ::testing::TempDir() + "/bombsXXXXXX";
  ASSERT_NE(mkdtemp(logdir.data()), nullptr);
  const Result result =
      RunCapture("", hostile.address(), {"--logdir=" + logdir, "--duration_ms=100"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_EQ(result.worker["outcome"], "failed");
  EXPECT_THAT(result.worker.value("reason", ""), HasSubstr("compresses"));
  EXPECT_LT(result.peak_bytes, kMaxPeakBytes);
  std::filesystem::remove_all(logdir);
}

TEST(CompressionBombTest, AnOversizedAnswerIsCutShort) {
  const OversizedWorker hostile(400 * kMiB);
  for (const char* verb : {"check", "stop"}) {
    const Result result = RunCapture(verb, hostile.address());
    EXPECT_EQ(result.exit_code, 4) << verb;
    EXPECT_EQ(result.worker["outcome"], "failed") << verb;
    EXPECT_THAT(result.worker.value("reason", ""),
                AllOf(HasSubstr("too large"), Not(HasSubstr("busy"))))
        << verb;
    EXPECT_LT(result.peak_bytes, kMaxPeakBytes) << verb;
  }
}

TEST(CompressionBombTest, AnOversizedDescriptionEndsACaptureWithItsCause) {
  const OversizedWorker hostile(8 * kMiB);
  std::string logdir = ::testing::TempDir() + "/bombsXXXXXX";
  ASSERT_NE(mkdtemp(logdir.data()), nullptr);
  const Result result =
      RunCapture("", hostile.address(), {"--logdir=" + logdir, "--duration_ms=100"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_EQ(result.worker["outcome"], "failed");
  EXPECT_THAT(result.worker.value("reason", ""), HasSubstr("too large"));
  std::filesystem::remove_all(logdir);
}

}  // namespace
}  // namespace jobscope
