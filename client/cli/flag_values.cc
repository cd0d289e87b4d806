// SPDX-License-Identifier: Apache-2.0
#include "client/cli/flag_values.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace jobscope {
namespace {

// For CLI11: return the error's text, empty if there is none.

std::string RefuseFlag(std::string& text) {
  if (!absl::StartsWith(text, "--")) return "";
  return absl::StrCat("\"", text, "\" is a flag, not a value; give a value, or leave the flag out");
}

std::string ToDecimal(std::string& text) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) {
    return absl::StrCat("\"", text, "\" is not a decimal number, or too large; give digits only");
  }
  text = absl::StrCat(number);
  return "";
}

}  // namespace

absl::Status CheckNoEmptyValue(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") break;  // what follows is another program's
    if (!absl::StartsWith(argument, "--") || argument.find('=') != argument.size() - 1) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        argument, " has no value; give one (is a variable of the shell empty?), or leave it out"));
  }
  return absl::OkStatus();
}

void CheckValues(CLI::App* app) {
  for (CLI::Option* option : app->get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // a switch
    const bool is_number = option->get_type_name() == "INT";
    option->transform(CLI::Validator(is_number ? ToDecimal : RefuseFlag, ""));
  }
}

}  // namespace jobscope
