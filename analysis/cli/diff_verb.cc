// SPDX-License-Identifier: Apache-2.0
#include "analysis/cli/diff_verb.h"

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analysis/cli/verb.h"
#include "analysis/digest/map_run.h"
#include "analysis/output/diff_output.h"
#include "analysis/verdict/diff.h"
#include "analysis/verdict/reduce.h"

namespace jobscope::analysis {
namespace {

constexpr int kExitRegression = 1;
struct DiffFlags {
  std::string before;
  std::string after;
  double gate_percent = 5;
  bool json = false;
  bool unlike = false;
};

int RunDiffVerb(const Verb& verb, const DiffFlags& flags) {
  const absl::StatusOr<Digests> before = ReadDigests(flags.before);
  const absl::StatusOr<Digests> after = ReadDigests(flags.after);
  for (const auto* digests : {&before, &after}) {
    if (!digests->ok())
      return verb.Fail(std::string(digests->status().message()), kExitNothingReadable);
    if ((*digests)->workers.empty()) {
      return verb.Fail("no worker's trace can be read in one of the runs", kExitNothingReadable);
    }
  }
  const Report report_before = Reduce(*before);
  const Report report_after = Reduce(*after);
  const std::string unlike = WhyUnlike(report_before, report_after);
  if (!unlike.empty() && !flags.unlike) {
    return verb.Fail(
        absl::StrCat("these runs are not alike: ", unlike, "; --unlike compares them anyway"),
        kExitUsage);
  }
  const RunDiff diff = DiffRuns(report_before, report_after, flags.gate_percent / 100);
  const std::string text = flags.json ? DiffJson(diff) : DiffText(diff, flags.gate_percent);
  if (const int failed = verb.Print(text)) return failed;
  return diff.outcome == RunDiff::Outcome::kRegression ? kExitRegression : 0;
}

}  // namespace

int DiffVerb(const std::vector<std::string>& arguments) {
  DiffFlags flags;
  Verb verb("diff",
            "Compares two runs of one program: whether the second one is slower, and where.",
            /*exit_not_written=*/5);
  CLI::App& app = verb.app();
  app.add_option("BEFORE", flags.before, "run directory, or a directory of digests")->required();
  app.add_option("AFTER", flags.after, "run directory, or a directory of digests")->required();
  app.add_option("--gate", flags.gate_percent,
                 "smallest change of the mean step time, in percent, that counts")
      ->check([](const std::string& text) {  // of a text that compares as nothing, such as nan
        double percent = 0;
        const bool in_range = absl::SimpleAtod(text, &percent) && percent >= 0 && percent <= 1000;
        return in_range ? std::string() : absl::StrCat(text, " is not in 0 to 1000");
      })
      ->capture_default_str();
  app.add_flag("--json", flags.json, "print the comparison as JSON");
  app.add_flag("--unlike", flags.unlike,
               "also compare runs of different programs, or of different numbers of workers");
  app.footer(
      "Exit codes: 0 no regression, 1 regression, 2 usage or unlike runs, 4 nothing "
      "readable, 5 the output could not be written.");
  if (const std::optional<int> ended = verb.Parse(arguments)) return *ended;
  return RunDiffVerb(verb, flags);
}

}  // namespace jobscope::analysis
