// SPDX-License-Identifier: Apache-2.0
#include "common/run/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "client/run/judge_trace.h"
#include "client/terminal/table.h"
#include "tests/client/fake_traces.h"

namespace jobscope {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Manifest, WhatIsNotKnownIsAbsent) {
  Manifest manifest;
  manifest.workers.emplace_back();
  manifest.workers[0].address = "w:1";
  FillTotals(&manifest);
  const json parsed = json::parse(ManifestJson(manifest));
  EXPECT_EQ(parsed, json::parse(R"({"schema":1,"verb":"capture","options":{},"workers":[
      {"address":"w:1","name":"","outcome":"","phase":"","files":[]}]})"));
}

TEST(Manifest, HoldsWhatTheSummarySays) {
  Manifest manifest;
  ManifestWorker worker;
  v1::Summary summary = MakeSummary(100, 7);
  summary.add_warnings("careful");
  summary.mutable_options()->add_ignored("opts.x");
  v1::CollectorState& cuda = *summary.add_collectors();
  cuda.set_name("cuda");
  cuda.set_state("failed");
  cuda.set_reason("no privilege");
  FillFromSummary(summary, &worker);
  worker.files.push_back({"w_1.xplane.pb", 5'000'000'000, 100});
  manifest.workers = {worker, worker};
  manifest.workers[1].start_unix_ns = *worker.start_unix_ns + 250;
  manifest.started_unix_ns = 1'700'000'000'123'456'789;
  FillTotals(&manifest);
  const json parsed = json::parse(ManifestJson(manifest));
  EXPECT_EQ(parsed["events"], 200);
  EXPECT_EQ(parsed["lost"], 14);
  EXPECT_EQ(parsed["start_spread_ns"], 250);
  EXPECT_TRUE(parsed["started_unix_ns"].is_number_integer());
  EXPECT_EQ(parsed["started_unix_ns"].get<int64_t>(), 1'700'000'000'123'456'789);
  const json& first = parsed["workers"][0];
  EXPECT_EQ(first["host"], "node1");
  EXPECT_EQ(first["pid"], 4711);
  EXPECT_EQ(first["rank"], 3);
  EXPECT_FALSE(first.contains("local_rank"));
  EXPECT_FALSE(first.contains("clock_offset_ns"));
  EXPECT_EQ(first["steps"], 5);
  EXPECT_EQ(first["lost_by_cause"], json({{"overwritten", 7}}));
  EXPECT_EQ(first["files"][0],
            json({{"path", "w_1.xplane.pb"}, {"bytes", 5'000'000'000}, {"events", 100}}));
  EXPECT_EQ(first["collectors"][1]["reason"], "no privilege");
  EXPECT_EQ(first["warnings"].size(), 2u);
}

TEST(Manifest, WhatAHungCollectorLostIsUnknown) {
  v1::Summary summary = MakeSummary(100, 7);
  v1::CollectorState& cuda = *summary.add_collectors();
  cuda.set_name("cuda");
  cuda.set_state("wedged");
  cuda.set_reason("it did not return");
  cuda.set_account_unknown(true);
  Manifest manifest;
  ManifestWorker worker;
  const Verdict verdict = JudgeOwnTrace(summary, 103, &worker);  // three of its events came
  EXPECT_STREQ(Name(verdict.outcome), "truncated");
  EXPECT_EQ(verdict.reason, "cuda wedged: it did not return");
  EXPECT_EQ(worker.events, 103u);
  EXPECT_FALSE(worker.lost.has_value());
  EXPECT_TRUE(worker.warnings.empty()) << worker.warnings[0];
  worker.outcome = Name(verdict.outcome);
  manifest.workers = {worker};
  FillTotals(&manifest);
  const json parsed = json::parse(ManifestJson(manifest));
  EXPECT_FALSE(parsed.contains("lost"));
  EXPECT_FALSE(parsed["workers"][0].contains("lost"));
  EXPECT_FALSE(parsed["workers"][0]["collectors"][1].contains("lost"));
  EXPECT_THAT(CaptureTable(manifest), HasSubstr("losses not known"));
}

TEST(Manifest, StepsAreAbsentWithoutASourceOfSteps) {
  v1::Summary summary = MakeSummary(1);
  summary.set_has_steps(false);
  ManifestWorker worker;
  FillFromSummary(summary, &worker);
  EXPECT_FALSE(worker.steps.has_value());
}

TEST(Manifest, StepsThatWereInferredSaySo) {
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

TEST(Manifest, ASumOfLossesSaysOfWhomNothingIsKnown) {
  Manifest manifest;
  manifest.workers.resize(3);
  for (ManifestWorker& worker : manifest.workers) {
    worker.outcome = "truncated";
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

TEST(Manifest, TheTableSaysWhatToDoWhereLittleWasRecorded) {
  Manifest manifest;
  manifest.options_numbers = {{"host_tracer_level", 2}, {"python_tracer_level", 0}};
  manifest.workers.resize(3);
  for (size_t i = 0; i < 3; ++i) {
    ManifestWorker& worker = manifest.workers[i];
    worker.address = "w" + std::to_string(i);
    worker.outcome = "ok";
    worker.version = "0.1.0";
    worker.collectors = {{"host", "on", "", 0, 0}, {"system", "on", "", 10, 0}};
  }
  EXPECT_THAT(CaptureTable(manifest),
              HasSubstr("hint for w0 and 2 more: no steps, no scopes: mark steps (JOBSCOPE_STEP, "
                        "jobscope.step), or see a Python program as it is with "
                        "--python_tracer_level=1\n"));
  manifest.workers[0].collectors[0].events = 7;
  manifest.workers[1].steps = 0;
  manifest.workers[2].steps = 3;
  EXPECT_THAT(CaptureTable(manifest), HasSubstr("hint for w0: no steps: mark them"));
  EXPECT_THAT(CaptureTable(manifest), HasSubstr("hint for w1: no whole step in this time"));
  EXPECT_THAT(CaptureTable(manifest), Not(HasSubstr("w2:")));
  // Nothing was to be recorded; another's worker; one that failed.
  manifest.options_numbers["host_tracer_level"] = 0;
  EXPECT_THAT(CaptureTable(manifest), Not(HasSubstr("hint")));
  manifest.options_numbers["host_tracer_level"] = 2;
  manifest.workers[0].version.clear();
  manifest.workers[1].outcome = "died";
  EXPECT_THAT(CaptureTable(manifest), Not(HasSubstr("hint")));
}

TEST(Manifest, TheLastLineTellsWhatIsTruncatedAndNamedTwice) {
  Manifest manifest;
  manifest.workers.resize(3);
  for (ManifestWorker& worker : manifest.workers) worker.outcome = "truncated";
  manifest.workers[2].outcome = "duplicate";
  EXPECT_THAT(CaptureTable(manifest), HasSubstr("2 of 2 workers delivered (2 truncated): "));
  EXPECT_THAT(CaptureTable(manifest), HasSubstr("; 1 named twice"));
}

TEST(Manifest, OneThatIsArmedHasNoTimeLeft) {
  Manifest manifest;
  manifest.workers.resize(1);
  manifest.workers[0].busy = {"r", "10.0.0.7", "armed", 0, {}};
  EXPECT_THAT(CheckTable(manifest), HasSubstr("armed r of 10.0.0.7\n"));
}

// A message may hold 64 MiB of texts, and there may be a thousand workers.
TEST(Manifest, WhatAWorkerSaysIsBounded) {
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

TEST(Manifest, NumbersThatJsonDoesNotKnowAreAbsent) {
  for (const double ms :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), -1.0}) {
    v1::DescribeResponse description;
    description.set_step_time_ms(ms);
    ManifestWorker worker;
    FillFromDescription(description, &worker);
    EXPECT_FALSE(worker.step_time_ms.has_value()) << ms;
  }
}

TEST(Manifest, ADescriptionCountsNoEvents) {
  v1::DescribeResponse response;
  response.mutable_identity()->set_pid(1);
  response.add_collectors()->set_name("host");
  response.mutable_busy()->set_session_id("s");
  response.mutable_busy()->set_remaining_ms(70);
  response.mutable_busy()->set_waiting(2);
  ManifestWorker worker;
  FillFromDescription(response, &worker);
  Manifest manifest;
  manifest.workers = {worker};
  const json parsed = json::parse(ManifestJson(manifest))["workers"][0];
  EXPECT_FALSE(parsed["collectors"][0].contains("events"));
  EXPECT_EQ(parsed["busy"], json({{"session_id", "s"}, {"remaining_ms", 70}, {"waiting", 2}}));
}

TEST(Manifest, ForeignBytesAreReplacedAndNotThrown) {
  Manifest manifest;
  manifest.workers.emplace_back();
  manifest.workers[0].reason = "bad \xff\xfe\n\"quoted\" \xc3";
  const std::string text = ManifestJson(manifest);
  EXPECT_TRUE(json::accept(text));
  EXPECT_EQ(text.back(), '\n');
}

TEST(Manifest, AWorkerThatWasLateWidensTheSpread) {
  Manifest manifest;
  manifest.workers.resize(2);
  manifest.workers[0].start_unix_ns = 1000;
  manifest.workers[1].start_unix_ns = 1000;
  manifest.workers[1].late_ns = 70;
  FillTotals(&manifest);
  EXPECT_EQ(manifest.start_spread_ns, 70u);
}

TEST(Manifest, AMeasuredSpreadIsKept) {
  Manifest manifest;
  manifest.workers.resize(2);
  manifest.workers[0].start_unix_ns = 1000;
  manifest.workers[1].start_unix_ns = 9'000'000;
  manifest.start_spread_ns = 12;
  FillTotals(&manifest);
  EXPECT_EQ(manifest.start_spread_ns, 12u);
}

TEST(Manifest, ALookbackIsNoSpread) {
  Manifest manifest;
  manifest.workers.resize(2);
  manifest.workers[0].start_unix_ns = 1000;
  manifest.workers[1].start_unix_ns = 400;
  manifest.workers[1].lookback_ns = 600;
  FillTotals(&manifest);
  EXPECT_EQ(manifest.start_spread_ns, 0u);
}

TEST(Manifest, HoldsTheCommonStart) {
  Manifest manifest;
  manifest.start_spread_ns = 40;
  manifest.clock_uncertainty_ns = 12;
  manifest.lookback_ns = 3'000'000'000;
  manifest.first_step = -7;
  manifest.last_step = 2;
  manifest.not_sampled = {"w2:1", "w3:1"};
  v1::Summary summary = MakeSummary(1);
  summary.set_has_step_window(true);
  summary.set_first_step(-7);
  summary.set_last_step(2);
  summary.set_lookback_ns(2'000'000'000);
  manifest.workers.resize(1);
  FillFromSummary(summary, &manifest.workers[0]);
  manifest.workers[0].clock_offset_ns = -5;
  manifest.workers[0].clock_uncertainty_ns = 12;
  const json parsed = json::parse(ManifestJson(manifest));
  EXPECT_EQ(parsed["start_spread_ns"], 40);
  EXPECT_EQ(parsed["clock_uncertainty_ns"], 12);
  EXPECT_EQ(parsed["lookback_ns"], 3'000'000'000);
  EXPECT_EQ(parsed["first_step"], -7);
  EXPECT_EQ(parsed["last_step"], 2);
  EXPECT_EQ(parsed["not_sampled"], json({"w2:1", "w3:1"}));
  const json& worker = parsed["workers"][0];
  EXPECT_EQ(worker["first_step"], -7);
  EXPECT_EQ(worker["last_step"], 2);
  EXPECT_EQ(worker["lookback_ns"], 2'000'000'000);
  EXPECT_EQ(worker["clock_offset_ns"], -5);
}

TEST(Manifest, ClocksFarApartDoNotOverflow) {
  Manifest manifest;
  manifest.workers.resize(2);
  manifest.workers[0].start_unix_ns = INT64_MIN;
  manifest.workers[1].start_unix_ns = INT64_MAX;
  FillTotals(&manifest);
  EXPECT_EQ(*manifest.start_spread_ns, UINT64_MAX);
}

}  // namespace
}  // namespace jobscope
