// SPDX-License-Identifier: Apache-2.0
//
// Parses the flags of every verb, and refuses what CLI11 would read as the value of a flag, but no
// user means.
#ifndef COMMON_ARGUMENTS_PARSE_ARGUMENTS_H_
#define COMMON_ARGUMENTS_PARSE_ARGUMENTS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace jobscope {

// Parses `arguments`, without program and verb, into the variables of the flags of `app`, which has
// all of them by now. Throws as CLI::App::parse does: CLI::CallForHelp, CLI::CallForVersion, and
// CLI::ParseError, also
// - of a flag with an empty value before "--" ("--logdir=", as a shell makes of --logdir=$UNSET):
//   CLI11 takes the next argument as its value;
// - of an empty value in the next argument (--logdir "$UNSET");
// - of a value that begins with "--": the next flag, if the value is left out;
// - of a flag that is given twice;
// - of a number that is not decimal. Leading zeros are allowed (CLI11 reads 010 as 8).
void ParseArguments(CLI::App* app, const std::vector<std::string>& arguments);

}  // namespace jobscope

#endif  // COMMON_ARGUMENTS_PARSE_ARGUMENTS_H_
