// SPDX-License-Identifier: Apache-2.0
//
// Texts that workers choose, in the outputs for programs: people see these on terminals, too.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "analysis/output/diff_output.h"
#include "analysis/output/report_json.h"

namespace jobscope::analysis {
namespace {

// A control sequence introducer of eight bits, in UTF-8, that clears the screen.
constexpr char kHostileWarning[] =
    "\xc2\x9b"
    "2J";

void ExpectHarmless(const std::string& text) {
  EXPECT_EQ(text.find(kHostileWarning), std::string::npos) << text;
  EXPECT_EQ(nlohmann::json::parse(text)["warnings"][0], kHostileWarning);
}

TEST(HostileText, ControlsNoTerminal) {
  Report report;
  report.warnings = {kHostileWarning};
  ExpectHarmless(ReportJson(report));
  RunDiff diff;
  diff.warnings = {kHostileWarning};
  ExpectHarmless(DiffJson(diff));
}

}  // namespace
}  // namespace jobscope::analysis
