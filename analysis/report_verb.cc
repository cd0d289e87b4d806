// SPDX-License-Identifier: Apache-2.0
#include "analysis/report_verb.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "analysis/map_run.h"
#include "analysis/reduce.h"
#include "analysis/report_html.h"
#include "analysis/report_json.h"
#include "analysis/report_text.h"
#include "analysis/text.h"

namespace jobscope::analysis {
namespace {

constexpr int kExitNotWritten = 1;
constexpr int kExitUsage = 2;
constexpr int kExitNothing = 4;

struct ReportFlags {
  std::string directory;
  std::string digest;
  std::string html;
  bool json = false;
};

int Fail(const std::string& what, int exit_code) {
  constexpr size_t kMaxColumns = 1000;
  std::fputs(absl::StrCat("jobscope report: ", TerminalText(what, kMaxColumns), "\n").c_str(),
             stderr);
  return exit_code;
}

int Print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  return Fail(absl::StrCat("standard output: ", strerror(errno)), kExitNotWritten);
}

int RunReport(const ReportFlags& flags) {
  const absl::StatusOr<Digests> digests = ReadDigests(flags.directory);
  if (!digests.ok()) return Fail(std::string(digests.status().message()), kExitNothing);
  if (digests->workers.empty()) {
    const std::string reason =
        digests->missing.empty()
            ? std::string("the run has no workers")
            : absl::StrCat(digests->missing.front().worker, ": ", digests->missing.front().reason);
    return Fail(absl::StrCat(flags.directory, ": no worker's trace can be read; ", reason),
                kExitNothing);
  }
  if (!flags.digest.empty()) {
    const absl::Status status = WriteDigests(*digests, flags.digest);
    if (!status.ok()) return Fail(std::string(status.message()), kExitNotWritten);
  }
  const Report report = Reduce(*digests);
  if (!flags.html.empty()) {
    const absl::Status status = WriteReportHtml(report, flags.html);
    if (!status.ok()) return Fail(std::string(status.message()), kExitNotWritten);
  }
  return Print(flags.json ? ReportJson(report) : ReportText(report));
}

}  // namespace

bool IsReportVerb(const std::vector<std::string>& arguments) {
  return arguments.size() > 1 && arguments[1] == "report";
}

int ReportVerb(const std::vector<std::string>& arguments) {
  ReportFlags flags;
  CLI::App app("Tells which worker of a captured run is slow, why, and what mending it is worth.",
               "jobscope report");
  app.add_option("RUN", flags.directory,
                 "run directory, LOGDIR/plugins/profile/RUN; or a directory of digests")
      ->required();
  app.add_flag("--json", flags.json, "print the report as JSON");
  app.add_option("--digest", flags.digest,
                 "also write what the report is made of into this directory: some KiB per worker");
  app.add_option("--html", flags.html,
                 "also write the report as one HTML file: charts and all tables, no network");
  app.footer("Exit codes: 0 an answer, 1 it could not be written, 2 usage, 4 nothing readable.");
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend() - 2);
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return Print(app.help());
  } catch (const CLI::ParseError& error) {
    return Fail(absl::StrCat(error.what(), "; jobscope report --help lists the flags"), kExitUsage);
  }
  return RunReport(flags);
}

}  // namespace jobscope::analysis
