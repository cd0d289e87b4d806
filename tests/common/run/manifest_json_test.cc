// SPDX-License-Identifier: Apache-2.0
#include "common/run/manifest_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/client/fake_traces.h"

namespace jobscope {
namespace {

using nlohmann::json;

TEST(ManifestJsonTest, WhatIsNotKnownIsAbsent) {
  Manifest manifest;
  manifest.workers.emplace_back();
  manifest.workers[0].address = "w:1";
  FillTotals(&manifest);
  const json parsed = json::parse(ManifestJson(manifest));
  EXPECT_EQ(parsed, json::parse(R"({"schema":1,"verb":"capture","options":{},"workers":[
      {"address":"w:1","name":"","outcome":"failed","phase":"connect","files":[]}]})"));
}

TEST(ManifestJsonTest, ForeignBytesAreReplacedAndNotThrown) {
  Manifest manifest;
  manifest.workers.emplace_back();
  manifest.workers[0].reason = "bad \xff\xfe\n\"quoted\" \xc3";
  const std::string text = ManifestJson(manifest);
  EXPECT_TRUE(json::accept(text));
  EXPECT_EQ(text.back(), '\n');
}

// `capture --json` shows it on a terminal, and workers choose the texts.
TEST(ManifestJsonTest, ForeignTextsControlNoTerminal) {
  Manifest manifest;
  manifest.workers.emplace_back();
  const std::string hostile =
      "\x1b[2K\x7f\xc2\x9b"
      "2J";
  manifest.workers[0].reason = hostile;
  const std::string text = ManifestJson(manifest);
  for (const char* control : {"\x1b", "\x7f", "\xc2\x9b"}) {
    EXPECT_EQ(text.find(control), std::string::npos) << text;
  }
  EXPECT_EQ(json::parse(text)["workers"][0]["reason"], hostile);
}

TEST(ManifestJsonTest, HoldsTheCommonStart) {
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

}  // namespace
}  // namespace jobscope
