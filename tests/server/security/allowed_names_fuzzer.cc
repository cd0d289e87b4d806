// SPDX-License-Identifier: Apache-2.0
//
// Names in certificates against the names that a worker accepts. The input is the setting, then the
// certificate's names; each text has its length before it, in two bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/security/allowed_names.h"
#include "tests/fuzz_input.h"

namespace jobscope {
namespace {

bool IsInside(const std::vector<absl::string_view>& all, absl::string_view name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

void Check(const std::string& setting, const std::vector<std::string>& names) {
  const auto allowed = AllowedNames::Parse(setting);
  if (!allowed.ok()) {
    Require(allowed.status().code() == absl::StatusCode::kInvalidArgument);
    return;
  }
  std::vector<absl::string_view> entries = absl::StrSplit(setting, ',');
  for (absl::string_view& entry : entries) entry = absl::StripAsciiWhitespace(entry);
  Require(entries.size() <= 256 && !allowed->any() && !allowed->Accepts(""));
  for (const absl::string_view entry : entries) Require(allowed->Accepts(entry));
  for (const std::string& name : names) {
    Require(allowed->Accepts(name) == IsInside(entries, name));
    // Bytes around a name in the setting, or beside it in a certificate, are not part of it.
    Require(!allowed->Accepts(name + " ") && !allowed->Accepts(name + ","));
    const std::string longer = name + std::string("\0.example.com", 13);
    Require(allowed->Accepts(longer) == IsInside(entries, longer));
  }
  // Written as it was read, it means the same.
  const auto again = AllowedNames::Parse(absl::StrJoin(entries, " ,\t"));
  Require(again.ok());
  for (const std::string& name : names) Require(again->Accepts(name) == allowed->Accepts(name));
}

}  // namespace
}  // namespace jobscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  jobscope::FuzzInput input(data, size);
  const std::string setting = input.TakeBytes16();
  std::vector<std::string> names;
  while (!input.empty() && names.size() < 64) names.push_back(input.TakeBytes16());
  jobscope::Check(setting, names);
  return 0;
}
