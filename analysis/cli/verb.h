// SPDX-License-Identifier: Apache-2.0
//
// Shared parts of the verbs `report` and `diff`.
#ifndef ANALYSIS_CLI_VERB_H_
#define ANALYSIS_CLI_VERB_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace jobscope::analysis {

inline constexpr int kExitUsage = 2;
inline constexpr int kExitNothingReadable = 4;

class Verb {
 public:
  // `name`: "report". `exit_not_written`: the exit code if stdout or a file cannot be written.
  Verb(std::string name, const std::string& description, int exit_not_written);

  CLI::App& app() { return app_; }
  int exit_not_written() const { return exit_not_written_; }

  // `arguments`: the command line, whose first two are the program and the verb. The exit code if
  // that ends it: help was asked for, or a flag is wrong.
  std::optional<int> Parse(const std::vector<std::string>& arguments);

  // Writes `text` to stdout, whole. 0, or exit_not_written().
  int Print(const std::string& text) const;

  // Writes `what` to stderr as one line. Returns `exit_code`.
  int Fail(const std::string& what, int exit_code) const;

 private:
  const std::string name_;
  const int exit_not_written_;
  CLI::App app_;
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_CLI_VERB_H_
