// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_ANALYSIS_RUN_FIXTURE_H_
#define TESTS_ANALYSIS_RUN_FIXTURE_H_

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "analysis/digest/digest_builder.h"
#include "analysis/digest/map_run.h"
#include "analysis/output/report_json.h"
#include "analysis/verdict/reduce.h"
#include "tests/analysis/made_run.h"
#include "tests/temporary_directory.h"

namespace jobscope::analysis {

// Made before the run in it.
struct RunDirectory {
  TemporaryDirectory directory_;
};

// A run directory that a test fills, and the report of it.
class RunFixture : public ::testing::Test, protected RunDirectory, protected MadeRun {
 protected:
  using json = nlohmann::json;

  RunFixture() : MadeRun(directory_.path()) {}

  // The report as others read it.
  json ReportOf(const std::string& directory);
  json ReportOfRun() { return ReportOf(directory_.path()); }
  // Of the run whose workers were added.
  Digests DigestsOfRun();
};

}  // namespace jobscope::analysis

#endif  // TESTS_ANALYSIS_RUN_FIXTURE_H_
