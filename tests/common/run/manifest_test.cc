// SPDX-License-Identifier: Apache-2.0
#include "common/run/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "common/run/manifest_json.h"
#include "tests/client/fake_traces.h"

namespace jobscope {
namespace {

using nlohmann::json;

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

TEST(Manifest, StepsAreAbsentWithoutASourceOfSteps) {
  v1::Summary summary = MakeSummary(1);
  summary.set_has_steps(false);
  ManifestWorker worker;
  FillFromSummary(summary, &worker);
  EXPECT_FALSE(worker.steps.has_value());
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

TEST(Manifest, NamesOfANewerWorkerStayReadable) {
  v1::Summary summary = MakeSummary(1);
  summary.mutable_collectors(0)->set_state("paused");
  summary.set_ended_by("operator");
  ManifestWorker worker;
  FillFromSummary(summary, &worker);
  EXPECT_TRUE(IsFault(worker.collectors[0].state)) << "nobody knows that it is none";
  EXPECT_TRUE(HasBegun(Reported<SessionPhase>("rewinding")));
  EXPECT_FALSE(HasBegun(Reported<SessionPhase>("armed")));
  Manifest manifest;
  manifest.workers = {worker};
  const json parsed = json::parse(ManifestJson(manifest))["workers"][0];
  EXPECT_EQ(parsed["collectors"][0]["state"], "paused");
  EXPECT_EQ(parsed["ended_by"], "operator");
}

TEST(Manifest, KnownNamesAreCompared) {
  v1::Summary summary = MakeSummary(1);
  summary.set_ended_by("steps");
  ManifestWorker worker;
  for (const char* state : {"on", "off"}) {
    summary.mutable_collectors(0)->set_state(state);
    FillFromSummary(summary, &worker);
    EXPECT_FALSE(IsFault(worker.collectors[0].state)) << state;
  }
  EXPECT_EQ(worker.ended_by, EndedBy::kSteps);
  EXPECT_NE(worker.ended_by, EndedBy::kDuration);
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
