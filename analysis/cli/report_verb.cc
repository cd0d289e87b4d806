// SPDX-License-Identifier: Apache-2.0
#include "analysis/cli/report_verb.h"

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "analysis/cli/verb.h"
#include "analysis/digest/map_run.h"
#include "analysis/output/report_html.h"
#include "analysis/output/report_json.h"
#include "analysis/output/report_text.h"
#include "analysis/verdict/reduce.h"

namespace jobscope::analysis {
namespace {

struct ReportFlags {
  std::string directory;
  std::string digest;
  std::string html;
  bool json = false;
};

int RunReport(const Verb& verb, const ReportFlags& flags) {
  const absl::StatusOr<Digests> digests = ReadDigests(flags.directory);
  if (!digests.ok())
    return verb.Fail(std::string(digests.status().message()), kExitNothingReadable);
  if (digests->workers.empty()) {
    const std::string reason =
        digests->missing.empty()
            ? std::string("the run has no workers")
            : absl::StrCat(digests->missing.front().worker, ": ", digests->missing.front().reason);
    return verb.Fail(absl::StrCat(flags.directory, ": no worker's trace can be read; ", reason),
                     kExitNothingReadable);
  }
  if (!flags.digest.empty()) {
    const absl::Status status = WriteDigests(*digests, flags.digest);
    if (!status.ok()) return verb.Fail(std::string(status.message()), verb.exit_not_written());
  }
  const Report report = Reduce(*digests);
  if (!flags.html.empty()) {
    const absl::Status status = WriteReportHtml(report, flags.html);
    if (!status.ok()) return verb.Fail(std::string(status.message()), verb.exit_not_written());
  }
  return verb.Print(flags.json ? ReportJson(report) : ReportText(report));
}

}  // namespace

int ReportVerb(const std::vector<std::string>& arguments) {
  ReportFlags flags;
  Verb verb("report",
            "Prints which worker of a captured run is slow, why, and what a fix would gain.",
            /*exit_not_written=*/1);
  CLI::App& app = verb.app();
  app.add_option("RUN", flags.directory,
                 "run directory, LOGDIR/plugins/profile/RUN; or a directory of digests")
      ->required();
  app.add_flag("--json", flags.json, "print the report as JSON");
  app.add_option("--digest", flags.digest,
                 "also write the digests of the report into this directory: some KiB per worker");
  app.add_option("--html", flags.html,
                 "also write the report as one HTML file: charts and all tables, no network");
  app.footer(
      "Exit codes: 0 a verdict, 1 the output could not be written, 2 usage, 4 nothing readable.");
  if (const std::optional<int> ended = verb.Parse(arguments)) return *ended;
  return RunReport(verb, flags);
}

}  // namespace jobscope::analysis
