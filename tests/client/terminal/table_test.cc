// SPDX-License-Identifier: Apache-2.0
#include "client/terminal/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "client/run/judge_trace.h"
#include "common/run/manifest.h"
#include "common/run/manifest_json.h"
#include "common/run/session_state.h"
#include "tests/client/fake_traces.h"

namespace jobscope {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

ManifestCollector Collector(const char* name, const char* state, const char* reason = "",
                            uint64_t events = 0) {
  return {name, Reported<CollectorState>(state), reason, events, /*lost=*/0};
}

TEST(TableTest, WhatAHungCollectorLostIsUnknown) {
  v1::Summary summary = MakeSummary(100, 7);
  v1::CollectorState& cuda = *summary.add_collectors();
  cuda.set_name("cuda");
  cuda.set_state("wedged");
  cuda.set_reason("it did not return");
  cuda.set_account_unknown(true);
  Manifest manifest;
  ManifestWorker worker;
  const WorkerOutcome outcome = JudgeOwnTrace(summary, 103, &worker);  // three of its events came
  EXPECT_STREQ(Name(outcome.kind), "truncated");
  EXPECT_EQ(outcome.reason, "cuda wedged: it did not return");
  EXPECT_EQ(worker.events, 103u);
  EXPECT_FALSE(worker.lost.has_value());
  EXPECT_TRUE(worker.warnings.empty()) << worker.warnings[0];
  worker.outcome = outcome.kind;
  manifest.workers = {worker};
  FillTotals(&manifest);
  const json parsed = json::parse(ManifestJson(manifest));
  EXPECT_FALSE(parsed.contains("lost"));
  EXPECT_FALSE(parsed["workers"][0].contains("lost"));
  EXPECT_FALSE(parsed["workers"][0]["collectors"][1].contains("lost"));
  EXPECT_THAT(CaptureTable(manifest), HasSubstr("losses not known"));
}

TEST(TableTest, AnEmptyTraceSaysThatTheHostCollectorWasOff) {
  v1::Summary summary = MakeSummary(0);
  const auto add = [&](const char* name, const char* reason) {
    v1::CollectorState& collector = *summary.add_collectors();
    collector.set_name(name);
    collector.set_state("off");
    collector.set_reason(reason);
  };
  add("host", "host_tracer_level is 0");
  add("cuda", "no GPU");
  ManifestWorker worker;
  const WorkerOutcome outcome = JudgeOwnTrace(summary, 0, &worker);
  EXPECT_STREQ(Name(outcome.kind), "empty");
  EXPECT_THAT(outcome.reason, HasSubstr("host off: host_tracer_level is 0"));
  EXPECT_EQ(outcome.reason.find("no GPU"), std::string::npos) << outcome.reason;
  EXPECT_EQ(JudgeOwnTrace(MakeSummary(1), 1, &worker).reason, "");
}

TEST(TableTest, ARankStandsBesideItsAddress) {
  Manifest manifest;
  manifest.workers.resize(2);
  manifest.workers[0].address = "a:1";
  manifest.workers[0].outcome = Outcome::kOk;
  manifest.workers[0].rank = 5;
  manifest.workers[1].address = "b:1";
  manifest.workers[1].outcome = Outcome::kOk;
  FillTotals(&manifest);
  EXPECT_THAT(CaptureTable(manifest), ContainsRegex("WORKER +RANK +OUTCOME"));
  EXPECT_THAT(CaptureTable(manifest), ContainsRegex("a:1 +5 +ok"));
  EXPECT_THAT(CheckTable(manifest), ContainsRegex("a:1 +ok +5"));
  // Whose rank is not known has none, not 0.
  EXPECT_THAT(CaptureTable(manifest), ContainsRegex("b:1 +ok"));
}

TEST(TableTest, StepsThatWereInferredSaySo) {
  v1::Summary summary = MakeSummary(1);
  ManifestWorker worker;
  FillFromSummary(summary, &worker);
  Manifest manifest;
  manifest.workers = {worker};
  EXPECT_FALSE(json::parse(ManifestJson(manifest))["workers"][0].contains("steps_inferred"));
  EXPECT_FALSE(json::parse(ManifestJson(manifest))["workers"][0].contains("steps_source"));
  EXPECT_THAT(CaptureTable(manifest), Not(HasSubstr("inferred")));

  summary.set_steps(1302);
  summary.set_steps_inferred_from("optimizer step");
  FillFromSummary(summary, &manifest.workers[0]);
  const json parsed = json::parse(ManifestJson(manifest))["workers"][0];
  EXPECT_EQ(parsed["steps"], 1302);
  EXPECT_EQ(parsed["steps_inferred"], true);
  EXPECT_EQ(parsed["steps_source"], "optimizer step");
  EXPECT_THAT(CaptureTable(manifest), HasSubstr("  1,302 inferred (optimizer step)\n"));

  v1::DescribeResponse description;
  description.set_current_step(17);
  description.set_has_current_step(true);
  description.set_steps_inferred_from("Keras batch");
  FillFromDescription(description, &manifest.workers[0]);
  EXPECT_EQ(manifest.workers[0].steps_source, "Keras batch");
  EXPECT_THAT(CheckTable(manifest), HasSubstr("17 inferred (Keras batch)"));
  description.clear_steps_inferred_from();
  FillFromDescription(description, &manifest.workers[0]);
  EXPECT_FALSE(manifest.workers[0].steps_inferred.has_value());
  EXPECT_THAT(CheckTable(manifest), Not(HasSubstr("inferred")));
}

TEST(TableTest, ASumOfLossesSaysOfWhomNothingIsKnown) {
  Manifest manifest;
  manifest.workers.resize(3);
  for (ManifestWorker& worker : manifest.workers) {
    worker.outcome = Outcome::kTruncated;
    worker.events = 10;
  }
  FillTotals(&manifest);
  EXPECT_THAT(CaptureTable(manifest), HasSubstr("30 events, losses not known, "));
  manifest.workers[0].lost = 4;
  FillTotals(&manifest);
  EXPECT_THAT(CaptureTable(manifest), HasSubstr("30 events, 4 lost (of 2 not known), "));
  for (ManifestWorker& worker : manifest.workers) worker.lost = 4;
  FillTotals(&manifest);
  EXPECT_THAT(CaptureTable(manifest), HasSubstr("30 events, 12 lost, "));
}

TEST(TableTest, TheLastLineTellsWhatIsTruncatedAndNamedTwice) {
  Manifest manifest;
  manifest.workers.resize(3);
  for (ManifestWorker& worker : manifest.workers) worker.outcome = Outcome::kTruncated;
  manifest.workers[2].outcome = Outcome::kDuplicate;
  EXPECT_THAT(CaptureTable(manifest), HasSubstr("2 of 2 workers delivered (2 truncated): "));
  EXPECT_THAT(CaptureTable(manifest), HasSubstr("; 1 named twice"));
}

TEST(TableTest, CollectorsWithNothingToRecordAreForTheVerbose) {
  v1::DescribeResponse description;
  v1::CollectorState* const host = description.add_collectors();
  host->set_name("host");
  host->set_state("on");
  v1::CollectorState* const cuda = description.add_collectors();
  cuda->set_name("cuda");
  cuda->set_state("off");
  cuda->set_reason("no NVIDIA driver");
  cuda->set_absent(true);
  v1::CollectorState* const nvml = description.add_collectors();
  nvml->set_name("nvml");
  nvml->set_state("off");
  nvml->set_reason("JOBSCOPE_NVML_MS is 0");
  Manifest manifest;
  manifest.workers.resize(1);
  FillFromDescription(description, &manifest.workers[0]);
  EXPECT_THAT(CheckTable(manifest), HasSubstr("host on; nvml off: JOBSCOPE_NVML_MS is 0\n"));
  EXPECT_THAT(CheckTable(manifest, /*verbose=*/true),
              HasSubstr("cuda off: no NVIDIA driver; nvml"));
  const json parsed = json::parse(ManifestJson(manifest))["workers"][0]["collectors"];
  EXPECT_EQ(parsed[1]["absent"], true);
  EXPECT_FALSE(parsed[0].contains("absent"));
}

TEST(TableTest, WhatIsLongStandsBelowTheRowsOfACheck) {
  Manifest manifest;
  manifest.workers.resize(3);
  for (size_t i = 0; i < 3; ++i) {
    ManifestWorker& worker = manifest.workers[i];
    worker.address = "10.0.0." + std::to_string(i) + ":6009";
    worker.outcome = Outcome::kOk;
    worker.version = "0.1.0";
    worker.protocol = Protocol::kNative;
    worker.host = "node1";
    worker.pid = 4711;
    worker.current_step = 12345;
    worker.step_time_ms = 123.45;
    worker.gpus.resize(2);
    for (ManifestGpu& gpu : worker.gpus) {
      gpu.name = "NVIDIA H100 80GB HBM3";
      gpu.memory_used_bytes = uint64_t{20} << 30;
      gpu.memory_total_bytes = uint64_t{80} << 30;
    }
    for (const char* name : {"host", "system", "python", "gc", "torch", "jax", "tensorflow"}) {
      worker.collectors.push_back(Collector(name, "on"));
    }
    worker.collectors.push_back(Collector("nvml", "off", "JOBSCOPE_NVML_MS is 0"));
  }
  manifest.workers[2].collectors.resize(1);
  const std::string table = CheckTable(manifest);
  EXPECT_THAT(table, HasSubstr("10.0.0.0:6009  ok       idle   native    0.1.0    node1  4711  "
                               "12345  123.45 ms\n"
                               "    GPUs: 2 x NVIDIA H100 80GB HBM3, 40.0 GiB of 160.0 GiB used\n"
                               "10.0.0.1:6009 "));
  EXPECT_THAT(table, HasSubstr("used\ncollectors of 10.0.0.0:6009 and 1 more: host on; system on; "
                               "python on; gc on; torch on; jax on;\n"
                               "    tensorflow on; nvml off: JOBSCOPE_NVML_MS is 0\n"
                               "collectors of 10.0.0.2:6009: host on\n"
                               "3 of 3 workers reachable\n"));
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(TableTest, OneThatIsArmedHasNoTimeLeft) {
  Manifest manifest;
  manifest.workers.resize(1);
  manifest.workers[0].busy = {"r", "10.0.0.7", Reported<SessionPhase>("armed"), 0, {}};
  EXPECT_THAT(CheckTable(manifest), HasSubstr("armed r of 10.0.0.7\n"));
}

// A message may hold 64 MiB of texts, and there may be a thousand workers.
TEST(TableTest, WhatAWorkerSaysIsBounded) {
  v1::Summary summary = MakeSummary(1);
  for (int i = 0; i < 100'000; ++i) {
    summary.add_warnings("w");
    summary.add_errors(std::string(100, 'e'));
    summary.add_collectors()->set_name("c");
    summary.add_lost_by_cause()->set_cause(std::to_string(i));
  }
  summary.mutable_collectors(0)->set_reason(std::string(1 << 20, 'r'));
  summary.mutable_identity()->set_executable(std::string(1 << 20, 'x'));
  summary.set_ended_by(std::string(1 << 20, 'y'));
  ManifestWorker worker;
  for (int i = 0; i < 50; ++i) worker.warnings.emplace_back("of the client");
  FillFromSummary(summary, &worker);
  EXPECT_EQ(worker.warnings.size(), 201u);
  EXPECT_EQ(worker.warnings[0], "of the client");
  EXPECT_EQ(worker.warnings[200], "more of them were left out");
  v1::DescribeResponse description;
  for (int i = 0; i < 100'000; ++i) {
    description.mutable_gpus()->add_gpus()->set_name(std::string(100, 'g'));
  }
  FillFromDescription(description, &worker);
  Manifest manifest;
  manifest.workers = {worker};
  EXPECT_LT(ManifestJson(manifest).size(), 500'000u);
  EXPECT_LT(CaptureTable(manifest).size(), 20'000u);
  EXPECT_LT(CheckTable(manifest).size(), 20'000u);
}

}  // namespace
}  // namespace jobscope
