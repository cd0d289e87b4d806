// SPDX-License-Identifier: Apache-2.0
#include "client/terminal/notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/run/manifest.h"
#include "common/run/session_state.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

ManifestCollector Reporting(const char* name, const char* state, const char* reason = "",
                            uint64_t events = 0) {
  return {name, Reported<CollectorState>(state), reason, events, /*lost=*/0};
}

TEST(NotesTest, HintsSayWhatToDoWhereLittleWasRecorded) {
  Manifest manifest;
  manifest.options_numbers = {{"host_tracer_level", 2}, {"python_tracer_level", 0}};
  manifest.workers.resize(3);
  for (size_t i = 0; i < 3; ++i) {
    ManifestWorker& worker = manifest.workers[i];
    worker.address = "w" + std::to_string(i);
    worker.outcome = Outcome::kOk;
    worker.version = "0.1.0";
    worker.collectors = {Reporting("host", "on"), Reporting("system", "on", "", 10)};
  }
  EXPECT_THAT(Notes(manifest),
              HasSubstr("hint for w0 and 2 more: no steps, no scopes: mark steps (JOBSCOPE_STEP, "
                        "jobscope.step), or record an unmodified Python program with "
                        "--python_tracer_level=1\n"));
  manifest.workers[0].collectors[0].events = 7;
  manifest.workers[1].steps = 0;
  manifest.workers[2].steps = 3;
  EXPECT_THAT(Notes(manifest), HasSubstr("hint for w0: no steps: mark them"));
  EXPECT_THAT(Notes(manifest), HasSubstr("hint for w1: no whole step in this time"));
  EXPECT_THAT(Notes(manifest), Not(HasSubstr("w2:")));
  // Nothing was to be recorded; another's worker; one that failed.
  manifest.options_numbers["host_tracer_level"] = 0;
  EXPECT_THAT(Notes(manifest), Not(HasSubstr("hint")));
  manifest.options_numbers["host_tracer_level"] = 2;
  manifest.workers[0].version.clear();
  manifest.workers[1].outcome = Outcome::kDied;
  EXPECT_THAT(Notes(manifest), Not(HasSubstr("hint")));
}

TEST(NotesTest, TextsThatDifferInNumbersAreOneOfEachWorker) {
  Manifest manifest;
  manifest.workers.resize(2);
  manifest.workers[0].address = "w1:1";
  manifest.workers[0].warnings = {"GPU 0 is throttled", "GPU 1 is throttled", "began 7 ms late"};
  manifest.workers[1].address = "w2:1";
  manifest.workers[1].warnings = {"GPU 2 is throttled", "began 9 ms late"};
  EXPECT_THAT(Notes(manifest), HasSubstr("warning of w1:1 and 1 more: GPU 0 is throttled\n"
                                         "warning of w1:1: GPU 1 is throttled\n"
                                         "warning of w1:1 and 1 more: began 7 ms late\n"));
}

TEST(NotesTest, LossesHaveTheirCauseAndWhatHelps) {
  Manifest manifest;
  manifest.workers.resize(3);
  for (size_t i = 0; i < 3; ++i) manifest.workers[i].address = "w" + std::to_string(i);
  manifest.workers[0].lost_by_cause = {{"no_ring", 4}, {"overwritten", 8712025}};
  manifest.workers[1].lost_by_cause = {{"overwritten", 12}};
  manifest.workers[2].lost_by_cause = {{"newer\x1b[31m", 3}};  // a cause of a newer worker's
  EXPECT_THAT(Notes(manifest),
              AllOf(ContainsRegex("losses of w0: 4 events \\(no_ring\\): .*rings_cap_bytes\n"),
                    ContainsRegex("losses of w0 and 1 more: 8712025 events \\(overwritten\\): "
                                  "overwritten before they were read; .*ring_records"),
                    HasSubstr("losses of w2: 3 events (newer [31m): lost by the collector\n")));
}

TEST(NotesTest, CollectorsThatDifferInANumberAreBothShown) {
  Manifest manifest;
  manifest.workers.resize(3);
  for (size_t i = 0; i < 3; ++i) {
    manifest.workers[i].address = "w" + std::to_string(i);
    manifest.workers[i].collectors = {
        Reporting("cuda", "degraded", i == 1 ? "CUPTI 12.4 is too old" : "CUPTI 12.6 is too old")};
  }
  EXPECT_THAT(Notes(manifest, /*with_collectors=*/true),
              HasSubstr("collectors of w0 and 1 more: cuda degraded: CUPTI 12.6 is too old\n"
                        "collectors of w1: cuda degraded: CUPTI 12.4 is too old\n"));
}

TEST(NotesTest, ThirtyWorkersWithTheSameCollectorsAreOneLine) {
  Manifest manifest;
  manifest.workers.resize(30);
  for (size_t i = 0; i < manifest.workers.size(); ++i) {
    manifest.workers[i].address = "w" + std::to_string(i);
    manifest.workers[i].collectors = {
        Reporting("host", "on"),
        Reporting("nvml", "failed", "nvmlInit_v2 has not returned; the job is not affected")};
  }
  EXPECT_THAT(Notes(manifest, /*with_collectors=*/true),
              AllOf(HasSubstr("collectors of w0 and 29 more: host on; nvml failed: nvmlInit_v2 has "
                              "not returned;\n    the job is not affected\n"),
                    Not(ContainsRegex("collectors of w[^0]"))));
}

}  // namespace
}  // namespace jobscope
