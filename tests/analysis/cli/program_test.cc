// SPDX-License-Identifier: Apache-2.0
//
// The program on runs of real workers: training loops of which one waits for its input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/subprocess.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// A worker that listens on a port of its own.
class Worker {
 public:
  explicit Worker(const std::vector<std::string>& command) : process_(command) {}
  std::string address() {
    const std::string line = process_.AwaitFirstLine();
    const std::string before = "listening on ";
    EXPECT_EQ(line.rfind(before, 0), 0U) << process_.out() << process_.err();
    return line.substr(std::min(before.size(), line.size()));
  }

 private:
  Subprocess process_;
};

class TrainLoop : public Worker {
 public:
  explicit TrainLoop(int slow_ms)
      : Worker({TRAIN_LOOP_PROGRAM, "--listen=127.0.0.1:0", absl::StrCat("--slow_ms=", slow_ms),
                "--seconds=300"}) {}
};

std::string NameOf(std::string address) {
  for (char& c : address) {
    if (c == ':') c = '_';
  }
  return address;
}

struct Result {
  int exit_code = 0;
  std::string out;
  std::string err;
};

Result Jobscope(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), JOBSCOPE_PROGRAM);
  Subprocess process(arguments);
  Result result;
  result.exit_code = process.Wait();
  result.out = process.out();
  result.err = process.err();
  return result;
}

class ReportProgramTest : public ::testing::Test {
 protected:
  struct Judged {
    std::string run;
    json report;
  };

  // Captures at least 8 steps of 150 ms, also if other programs take most of the machine. Captures
  // again, and longer, if these took so much of a worker's time that the verdict is, rightly, that
  // it did not run, or that its steps are too few.
  Judged CaptureAndReport(const std::vector<std::string>& addresses,
                          const std::string& length = "") {
    std::string all;
    for (const std::string& address : addresses) {
      absl::StrAppend(&all, all.empty() ? "" : ",", address);
    }
    Judged judged;
    for (int attempt = 0; attempt < 6; ++attempt) {
      const std::string name = absl::StrCat("r", attempt);
      const Result capture =
          Jobscope({"capture", "--service_addr=" + all,
                    length.empty() ? absl::StrCat("--duration_ms=", 4000 * (attempt + 1)) : length,
                    "--session_id=" + name, "--logdir=" + logdir_.path()});
      EXPECT_EQ(capture.exit_code, 0) << capture.out << capture.err;
      judged.run = logdir_.path() + "/plugins/profile/" + name;
      judged.report = Report(judged.run);
      const json& verdict = judged.report["verdict"];
      const bool few = length.empty() && verdict.value("finding", "") == "undecidable";
      if (verdict.value("class", "") != "not_running" && !few) break;
    }
    return judged;
  }
  static json Report(const std::string& run) {
    const Result report = Jobscope({"report", run, "--json"});
    EXPECT_EQ(report.exit_code, 0) << report.err;
    json parsed = json::parse(report.out, nullptr, false);
    EXPECT_TRUE(parsed.is_object()) << report.out;
    return parsed;
  }

  TemporaryDirectory logdir_;
};

TEST_F(ReportProgramTest, NamesTheWorkerThatWaitsForItsInput) {
  TrainLoop fast(0);
  TrainLoop slow(150);
  const std::string slow_address = slow.address();
  const auto [run, report] = CaptureAndReport({fast.address(), slow_address});
  EXPECT_EQ(report["schema"], 1);
  EXPECT_EQ(report["verdict"]["workers"], json({NameOf(slow_address)})) << report["verdict"];
  EXPECT_EQ(report["verdict"].value("class", ""), "input") << report["verdict"];
  EXPECT_EQ(report.value("/verdict/names/0"_json_pointer, ""), "next_batch");
  const Result text = Jobscope({"report", run});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_EQ(text.out.rfind("VERDICT  " + NameOf(slow_address) + " is slow", 0), 0u) << text.out;

  // By way of digests: the same answer, to the byte.
  const std::string digests = logdir_.path() + "/digests";
  const Result direct = Jobscope({"report", run, "--json", "--digest=" + digests});
  EXPECT_EQ(direct.exit_code, 0) << direct.err;
  const Result reduced = Jobscope({"report", digests, "--json"});
  EXPECT_EQ(reduced.exit_code, 0) << reduced.err;
  EXPECT_EQ(direct.out, reduced.out);
}

TEST_F(ReportProgramTest, CaptureEndsWithTheVerdictAndRunsAreCompared) {
  TrainLoop loop(30);
  const std::string address = loop.address();
  for (const char* run : {"a", "b"}) {
    // Steps, not a time: a busy machine may take seconds for one.
    const Result capture = Jobscope(
        {"capture", "--service_addr=" + address, "--steps=20", "--report", "--file_mode=0640",
         std::string("--session_id=") + run, "--logdir=" + logdir_.path()});
    EXPECT_EQ(capture.exit_code, 0) << capture.err;
    // Whatever the verdict is on this machine, it is that of `report`.
    const Result report = Jobscope({"report", logdir_.path() + "/plugins/profile/" + run});
    EXPECT_EQ(report.out.rfind("VERDICT  " + NameOf(address), 0), 0u) << report.out;
    EXPECT_THAT(capture.out, HasSubstr("\n" + report.out.substr(0, report.out.find('\n') + 1)));
    EXPECT_THAT(capture.out, HasSubstr("\nREPORT   " + logdir_.path()));
  }
  const std::string runs = logdir_.path() + "/plugins/profile/";
  const std::string page = ReadAll(runs + "a/report.html");
  EXPECT_NE(page.find("<h1>" + NameOf(address)), std::string::npos);  // too long to be printed
  EXPECT_EQ(std::filesystem::status(runs + "a/report.html").permissions(),
            static_cast<std::filesystem::perms>(0640));
  // A gate that the machine's load cannot reach.
  const Result same = Jobscope({"diff", runs + "a", runs + "b", "--gate=300", "--json"});
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  const json diff = json::parse(same.out, nullptr, false);
  EXPECT_THAT(diff["outcome"].get<std::string>(), AnyOf("neutral", "inconclusive")) << same.out;
  EXPECT_TRUE(diff["change_low"] <= diff["change"] && diff["change"] <= diff["change_high"]);

  TrainLoop slower(400);
  const Result capture = Jobscope({"capture", "--service_addr=" + slower.address(), "--steps=10",
                                   "--session_id=c", "--logdir=" + logdir_.path()});
  EXPECT_EQ(capture.exit_code, 0) << capture.err;
  const Result regression = Jobscope({"diff", runs + "a", runs + "c", "--gate=20"});
  EXPECT_EQ(regression.exit_code, 1) << regression.out << regression.err;
  EXPECT_EQ(regression.out.rfind("OUTCOME  regression", 0), 0u) << regression.out;
  EXPECT_THAT(regression.out, HasSubstr("\nCLASS    input"));
  for (const char* gate : {"nan", "-1", "1001", "5 %"}) {
    const Result refused =
        Jobscope({"diff", runs + "a", runs + "c", std::string("--gate=") + gate});
    EXPECT_EQ(refused.exit_code, 2) << refused.out << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("--gate")) << gate;
  }
}

TEST_F(ReportProgramTest, OneWorkerIsBoundByItsInput) {
  TrainLoop slow(150);
  const json verdict = CaptureAndReport({slow.address()}).report["verdict"];
  EXPECT_EQ(verdict["finding"], "bound") << verdict;
  EXPECT_EQ(verdict.value("class", ""), "input") << verdict;
}

TEST_F(ReportProgramTest, OneWorkerIsBoundByItsCompilations) {
  const TemporaryDirectory compiled;
  Worker worker({COMPILE_LOOP_PROGRAM, compiled.path()});
  const json verdict = CaptureAndReport({worker.address()}, "--steps=12").report["verdict"];
  EXPECT_EQ(verdict["finding"], "bound") << verdict;
  EXPECT_EQ(verdict.value("class", ""), "compilation") << verdict;
  EXPECT_EQ(verdict.value("names", json()), json({"compile_norm"}));
}

TEST_F(ReportProgramTest, WhatIsNoRunIsSaid) {
  const Result empty = Jobscope({"report", logdir_.path()});
  EXPECT_EQ(empty.exit_code, 4);
  EXPECT_THAT(empty.err, HasSubstr("name a run directory"));
  EXPECT_EQ(Jobscope({"report", "/nonexistent"}).exit_code, 4);
  EXPECT_EQ(Jobscope({"report"}).exit_code, 2);
  EXPECT_EQ(Jobscope({"report", logdir_.path(), "--nonsense"}).exit_code, 2);
  EXPECT_EQ(Jobscope({"report", "--help"}).exit_code, 0);
}

// Runs made up by hand: "missing" has 4 workers with steps, "training" 8.
class MadeRunsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Subprocess made({MADE_RUNS_PROGRAM, runs_.path(), "training", "missing"});
    ASSERT_EQ(made.Wait(), 0) << made.err();
  }
  std::string Run(const std::string& name) const { return runs_.path() + "/" + name; }

  TemporaryDirectory runs_;
};

TEST_F(MadeRunsTest, UnlikeRunsAreComparedOnlyIfAskedFor) {
  const Result refused = Jobscope({"diff", Run("missing"), Run("training")});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("4 and 8 workers with steps; --unlike compares them anyway"));
  EXPECT_EQ(refused.out, "");
  const Result asked = Jobscope({"diff", Run("missing"), Run("training"), "--unlike"});
  EXPECT_EQ(asked.exit_code, 1) << asked.err;
  EXPECT_EQ(asked.out.rfind("OUTCOME  regression", 0), 0u) << asked.out;
}

TEST_F(MadeRunsTest, AFlagIsNoFileToBeWritten) {
  for (const std::string flag : {"--html", "--digest"}) {
    const Result report = Jobscope({"report", flag, "--json", Run("missing")});
    EXPECT_EQ(report.exit_code, 2);
    EXPECT_THAT(report.err, HasSubstr(flag + ": \"--json\" is a flag, not a value"));
    const Result empty = Jobscope({"report", flag + "=", Run("missing")});
    EXPECT_EQ(empty.exit_code, 2);
    EXPECT_THAT(empty.err, HasSubstr("jobscope report: " + flag + "= has no value"));
    const Result two_words = Jobscope({"report", flag, "", Run("missing")});
    EXPECT_EQ(two_words.exit_code, 2);
    EXPECT_THAT(two_words.err, HasSubstr("jobscope report: " + flag + ": has no value"));
  }
}

TEST_F(MadeRunsTest, APageThatCannotBeWrittenIsAnError) {
  const Result report = Jobscope({"report", Run("missing"), "--html=/nonexistent/x"});
  EXPECT_EQ(report.exit_code, 1);
  EXPECT_THAT(report.err, HasSubstr("/nonexistent"));
  EXPECT_EQ(report.out, "");
}

}  // namespace
}  // namespace jobscope
