// SPDX-License-Identifier: Apache-2.0
//
// Refuses what CLI11 would read as the value of a flag, but no user means.
#ifndef CLIENT_CLI_FLAG_VALUES_H_
#define CLIENT_CLI_FLAG_VALUES_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace jobscope {

// Returns INVALID_ARGUMENT if an argument before "--" is a flag with an empty value ("--logdir=",
// as a shell makes of --logdir=$UNSET): CLI11 takes the next argument as its value. For every verb,
// with all arguments of the program.
absl::Status CheckNoEmptyValue(const std::vector<std::string>& arguments);

// Makes the flags that `app` has by now read numbers in decimal, also with leading zeros (CLI11
// reads 010 as 8), and refuse a value that begins with "--": the next flag, if the value is left
// out.
void CheckValues(CLI::App* app);

}  // namespace jobscope

#endif  // CLIENT_CLI_FLAG_VALUES_H_
