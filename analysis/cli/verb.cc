// SPDX-License-Identifier: Apache-2.0
#include "analysis/cli/verb.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/arguments/parse_arguments.h"
#include "common/text/foreign_text.h"

namespace jobscope::analysis {

Verb::Verb(std::string name, const std::string& description, int exit_not_written)
    : name_(std::move(name)),
      exit_not_written_(exit_not_written),
      app_(description, absl::StrCat("jobscope ", name_)) {}

std::optional<int> Verb::Parse(const std::vector<std::string>& arguments) {
  try {
    ParseArguments(&app_, {arguments.begin() + 2, arguments.end()});
  } catch (const CLI::CallForHelp&) {
    return Print(app_.help());
  } catch (const CLI::ParseError& error) {
    return Fail(absl::StrCat(error.what(), "; jobscope ", name_, " --help lists the flags"),
                kExitUsage);
  }
  return std::nullopt;
}

int Verb::Print(const std::string& text) const {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  return Fail(absl::StrCat("standard output: ", strerror(errno)), exit_not_written_);
}

int Verb::Fail(const std::string& what, int exit_code) const {
  constexpr size_t kMaxColumns = 1000;  // maximum length of a message; paths may be long
  std::fputs(
      absl::StrCat("jobscope ", name_, ": ", OneLineInColumns(what, kMaxColumns), "\n").c_str(),
      stderr);
  return exit_code;
}

}  // namespace jobscope::analysis
