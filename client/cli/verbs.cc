// SPDX-License-Identifier: Apache-2.0
#include "client/cli/verbs.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/cli/diff_verb.h"
#include "analysis/cli/report_verb.h"
#include "client/cli/base/exit_code.h"
#include "client/cli/capture.h"
#include "client/cli/run/run_verb.h"
#include "client/cli/suggestion.h"
#include "client/cli/survey/check_verb.h"
#include "client/cli/survey/stop_verb.h"
#include "client/cli/versions.h"
#include "common/process/identity.h"

namespace jobscope {
namespace {

constexpr VerbEntry kVerbs[] = {
    {"capture", "record workers and gather their traces", &kCaptureVerb, nullptr},
    {"check", "list workers and their state; record nothing", &kCheckVerb, nullptr},
    {"stop", "end a running capture early, keep its data", &kStopVerb, nullptr},
    {"run", "start a program whose training processes become workers", nullptr, RunVerb},
    {"report", "print which worker of a captured run is slow, and why", nullptr,
     analysis::ReportVerb},
    {"diff", "compare two runs", nullptr, analysis::DiffVerb},
};
constexpr const VerbEntry* kDefaultVerb = &kVerbs[0];  // of the program `capture`

std::string VerbUsage() {
  std::string usage = "Usage: jobscope VERB [flags]\n";
  for (const VerbEntry& verb : kVerbs)
    absl::StrAppendFormat(&usage, "  %-10s%s\n", verb.name, verb.summary);
  absl::StrAppend(&usage,
                  "jobscope VERB --help lists the flags of a verb; jobscope --versions lists the "
                  "linked libraries.\n");
  return usage;
}

VerbResult PrintInstead(std::string text, int exit_code) {
  VerbResult result;
  result.text = std::move(text);
  result.exit_code = exit_code;
  return result;
}

}  // namespace

std::vector<std::string> VerbNames() {
  std::vector<std::string> names;
  for (const VerbEntry& verb : kVerbs) names.emplace_back(verb.name);
  return names;
}

VerbResult ParseVerb(const std::vector<std::string>& arguments) {
  const std::string path = arguments.empty() ? "capture" : arguments[0];
  const bool as_jobscope = absl::StartsWith(path.substr(path.rfind('/') + 1), "jobscope");
  const std::string program = as_jobscope ? "jobscope" : "capture";
  const std::string first = arguments.size() > 1 ? arguments[1] : "";
  if (first == "--versions") return PrintInstead(LinkedVersions(), 0);
  for (const VerbEntry& verb : kVerbs) {
    if (first != verb.name || (&verb == kDefaultVerb && !as_jobscope)) continue;
    return {&verb,
            absl::StrCat(program, " ", verb.name),
            {arguments.begin() + 2, arguments.end()},
            "",
            0};
  }
  if (!as_jobscope) {
    const size_t skipped = arguments.empty() ? 0 : 1;
    return {kDefaultVerb, program, {arguments.begin() + skipped, arguments.end()}, "", 0};
  }
  if (first == "--version") return PrintInstead(absl::StrCat("jobscope ", Version(), "\n"), 0);
  if (first == "--help" || first == "-h") return PrintInstead(VerbUsage(), 0);
  if (first.empty()) return PrintInstead(VerbUsage(), kExitUsage);
  const std::optional<std::string> meant = Suggestion(first, VerbNames());
  return PrintInstead(
      absl::StrCat("jobscope: unknown verb '", first, "'",
                   meant.has_value() ? absl::StrCat("; did you mean ", *meant, "?") : "", "\n",
                   VerbUsage()),
      kExitUsage);
}

}  // namespace jobscope
