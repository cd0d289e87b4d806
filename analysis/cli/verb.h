// SPDX-License-Identifier: Apache-2.0
//
// Defines what the verbs `report` and `diff` share.
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
  // `name` is the verb, such as "report". `exit_not_written` is the exit code if stdout or a file
  // cannot be written.
  Verb(std::string name, const std::string& description, int exit_not_written);

  CLI::App& app() { return app_; }
  int exit_not_written() const { return exit_not_written_; }

  // Parses the command line, which begins with the program and the verb. Returns the exit code if
  // that ends it: help was requested, or a flag is wrong.
  std::optional<int> Parse(const std::vector<std::string>& arguments);

  // Writes all of `text` to stdout. Returns 0, or exit_not_written().
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
