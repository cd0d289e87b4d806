// SPDX-License-Identifier: Apache-2.0
#include "common/arguments/parse_arguments.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace jobscope {
namespace {

constexpr char kNoValue[] =
    "has no value; give one (is a variable of the shell empty?), or leave it out";

// For CLI11: return the error's text, empty if there is none.

std::string RefuseNoValue(std::string& text) {
  if (text.empty()) return kNoValue;
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

void CheckNoEmptyValue(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") break;  // no flag follows
    if (!absl::StartsWith(argument, "--") || argument.find('=') != argument.size() - 1) continue;
    throw CLI::ParseError(absl::StrCat(argument, " ", kNoValue), CLI::ExitCodes::ArgumentMismatch);
  }
}

}  // namespace

void ParseArguments(CLI::App* app, const std::vector<std::string>& arguments) {
  CheckNoEmptyValue(arguments);
  for (CLI::Option* option : app->get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // a switch
    const bool is_number = option->get_type_name() == "INT";
    option->transform(CLI::Validator(is_number ? ToDecimal : RefuseNoValue, ""));
  }
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app->parse(reversed);  // takes the arguments from the back
  } catch (const CLI::ArgumentMismatch&) {
    for (const CLI::Option* option : app->get_options()) {
      if (option->count() <= 1 || option->get_items_expected_max() == 0) continue;
      throw CLI::ParseError(
          absl::StrCat(option->get_name(), " is given ", option->count(),
                       " times; give it once, with commas between the entries of a list"),
          CLI::ExitCodes::ArgumentMismatch);
    }
    throw;
  }
}

}  // namespace jobscope
