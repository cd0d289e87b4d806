// SPDX-License-Identifier: Apache-2.0
#include "server/process/server_options.h"

#include <algorithm>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace jobscope {
namespace {

absl::Status MergeOne(const ServerOption& /*option*/, const std::string& in_environment,
                      std::string* text) {
  if (text->empty()) *text = in_environment;
  return absl::OkStatus();
}

absl::Status MergeOne(const ServerOption& /*option*/, bool in_environment, bool* flag) {
  *flag = *flag || in_environment;
  return absl::OkStatus();
}

absl::Status MergeOne(const ServerOption& option, uint64_t in_environment, uint64_t* number) {
  if (*number == 0) {
    *number = in_environment != 0 ? in_environment : option.otherwise;
  } else if (*number < option.least || *number > option.most) {
    return absl::InvalidArgumentError(absl::StrCat(
        option.name, " = ", *number, " is out of range: ", option.least, " to ", option.most));
  }
  return absl::OkStatus();
}

}  // namespace

bool operator==(const ServerOptions& a, const ServerOptions& b) {
  return std::all_of(
      std::begin(kServerOptions), std::end(kServerOptions), [&](const ServerOption& option) {
        return std::visit([&](auto member) { return a.*member == b.*member; }, option.member);
      });
}

absl::StatusOr<ServerOptions> Merge(const ServerOptions& in_code,
                                    const ServerOptions& in_environment) {
  ServerOptions merged = in_code;
  absl::Status status;
  for (const ServerOption& option : kServerOptions) {
    const auto merge_one = [&](auto member) {
      status.Update(MergeOne(option, in_environment.*member, &(merged.*member)));
    };
    std::visit(merge_one, option.member);
  }
  if (!status.ok()) return status;
  return merged;
}

std::string GiverOf(std::string ServerOptions::*text, const ServerOptions& in_code) {
  const ServerOption& option = *std::find_if(
      std::begin(kServerOptions), std::end(kServerOptions),
      [text](const ServerOption& known) { return known.member == decltype(known.member)(text); });
  return (in_code.*text).empty() ? option.variable : absl::StrCat("options.", option.name);
}

}  // namespace jobscope
