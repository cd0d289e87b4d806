// SPDX-License-Identifier: Apache-2.0
#include "analysis/diff_verb.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/diff.h"
#include "analysis/map_run.h"
#include "analysis/reduce.h"
#include "analysis/text.h"
#include "analysis/text_table.h"
#include "analysis/verdict_text.h"

namespace jobscope::analysis {
namespace {

constexpr int kExitRegression = 1;
constexpr int kExitUsage = 2;
constexpr int kExitNothing = 4;
constexpr int kExitNotWritten = 5;

struct DiffFlags {
  std::string before;
  std::string after;
  double gate_percent = 5;
  bool json = false;
  bool unlike = false;
};

int Fail(const std::string& what, int exit_code) {
  constexpr size_t kMaxColumns = 1000;
  std::fputs(absl::StrCat("jobscope diff: ", TerminalText(what, kMaxColumns), "\n").c_str(),
             stderr);
  return exit_code;
}

nlohmann::ordered_json DifferencesJson(const std::vector<Difference>& differences) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const auto rounded = [](double value) { return std::round(value * 1e6) / 1e6; };
  for (const Difference& difference : differences) {
    list.push_back({{"name", difference.name},
                    {"before_ms", rounded(difference.before_ms)},
                    {"after_ms", rounded(difference.after_ms)},
                    {"change_ms", rounded(difference.delta_ms())}});
  }
  return list;
}

std::string DiffJson(const RunDiff& diff) {
  nlohmann::ordered_json root;
  root["schema"] = 1;
  root["outcome"] = OutcomeName(diff.outcome);
  root["step_ms"] = {{"before", diff.before_ms}, {"after", diff.after_ms}};
  root["change"] = diff.change;
  root["change_low"] = diff.change_low;
  root["change_high"] = diff.change_high;
  if (!diff.why_inconclusive.empty()) root["why_inconclusive"] = diff.why_inconclusive;
  root["classes"] = DifferencesJson(diff.classes);
  root["names"] = DifferencesJson(diff.names);
  return root.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string Table(const char* title, const std::vector<Difference>& differences) {
  TextTable table({{title, 50, false}, {"BEFORE ms", 10}, {"AFTER ms", 10}, {"CHANGE ms", 10}});
  constexpr size_t kMaxRows = 12;
  for (const Difference& difference : differences) {
    if (table.rows() == kMaxRows) break;
    table.Add({difference.name, absl::StrFormat("%.3f", difference.before_ms),
               absl::StrFormat("%.3f", difference.after_ms),
               absl::StrFormat("%+.3f", difference.delta_ms())});
  }
  return table.rows() == 0 ? std::string() : absl::StrCat("\n", table.Text());
}

std::string DiffText(const RunDiff& diff, double gate_percent) {
  std::string text = absl::StrFormat(
      "OUTCOME  %s: %s per step, before %s: %+.1f %% (%+.1f to %+.1f; gate %g %%)\n",
      OutcomeName(diff.outcome), Milliseconds(diff.after_ms), Milliseconds(diff.before_ms),
      100 * diff.change, 100 * diff.change_low, 100 * diff.change_high, gate_percent);
  const auto line = [&text](const char* label, const Difference& difference) {
    absl::StrAppendFormat(&text, "%-8s %s: %s per step, before %s\n", label,
                          TerminalText(difference.name, 50), Milliseconds(difference.after_ms),
                          Milliseconds(difference.before_ms));
  };
  if (!diff.classes.empty()) line("CLASS", diff.classes.front());
  if (!diff.names.empty()) line("NAME", diff.names.front());
  if (!diff.why_inconclusive.empty()) {
    absl::StrAppend(&text, "WHY      ", diff.why_inconclusive, "\n");
  }
  return absl::StrCat(text, Table("CLASS", diff.classes),
                      Table("SCOPE, OPERATOR OR KERNEL", diff.names));
}

int RunDiffVerb(const DiffFlags& flags) {
  const absl::StatusOr<Digests> before = ReadDigests(flags.before);
  const absl::StatusOr<Digests> after = ReadDigests(flags.after);
  for (const auto* digests : {&before, &after}) {
    if (!digests->ok()) return Fail(std::string(digests->status().message()), kExitNothing);
    if ((*digests)->workers.empty()) {
      return Fail("no worker's trace can be read in one of the runs", kExitNothing);
    }
  }
  const Report report_before = Reduce(*before);
  const Report report_after = Reduce(*after);
  const std::string unlike = WhyUnlike(report_before, report_after);
  if (!unlike.empty() && !flags.unlike) {
    return Fail(absl::StrCat("these runs are not alike: ", unlike,
                             "; --unlike compares them all "
                             "the same"),
                kExitUsage);
  }
  const RunDiff diff = DiffRuns(report_before, report_after, flags.gate_percent / 100);
  const std::string text = flags.json ? DiffJson(diff) : DiffText(diff, flags.gate_percent);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    return Fail("cannot write to standard output", kExitNotWritten);
  }
  return diff.outcome == RunDiff::Outcome::kRegression ? kExitRegression : 0;
}

}  // namespace

bool IsDiffVerb(const std::vector<std::string>& arguments) {
  return arguments.size() > 1 && arguments[1] == "diff";
}

int DiffVerb(const std::vector<std::string>& arguments) {
  DiffFlags flags;
  CLI::App app("Compares two runs of one program: is the second one slower, and where.",
               "jobscope diff");
  app.add_option("BEFORE", flags.before, "run directory, or a directory of digests")->required();
  app.add_option("AFTER", flags.after, "likewise")->required();
  app.add_option("--gate", flags.gate_percent,
                 "change of the mean step time, in percent, from which on it counts")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  app.add_flag("--json", flags.json, "print the comparison as JSON");
  app.add_flag("--unlike", flags.unlike,
               "compare runs of different programs, or of different numbers of workers, too");
  app.footer(
      "Exit codes: 0 no regression, 1 regression, 2 usage or unlike runs, 4 nothing "
      "readable, 5 it could not be written.");
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend() - 2);
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    return Fail(absl::StrCat(error.what(), "; jobscope diff --help lists the flags"), kExitUsage);
  }
  return RunDiffVerb(flags);
}

}  // namespace jobscope::analysis
