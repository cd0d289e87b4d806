// SPDX-License-Identifier: Apache-2.0
#include "server/security/allowed_names.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace jobscope {
namespace {

constexpr size_t kMaxNames = 256;
constexpr size_t kMaxNameBytes = 256;

}  // namespace

absl::StatusOr<AllowedNames> AllowedNames::Parse(absl::string_view text) {
  AllowedNames allowed;
  for (const absl::string_view entry : absl::StrSplit(text, ',')) {
    const absl::string_view name = absl::StripAsciiWhitespace(entry);
    if (name.empty() || name.size() > kMaxNameBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "JOBSCOPE_TLS_ALLOWED_NAMES (options.tls_allowed_names) holds ",
          name.empty() ? "an empty name" : "a name of more than 256 bytes",
          ": write names of certificates, separated by commas, such as alice,bob@example.com"));
    }
    allowed.names_.emplace_back(name);
  }
  if (allowed.names_.size() > kMaxNames) {
    return absl::InvalidArgumentError(
        absl::StrCat("JOBSCOPE_TLS_ALLOWED_NAMES (options.tls_allowed_names) holds ",
                     allowed.names_.size(), " names; at most ", kMaxNames,
                     ": issue the operators' certificates from a CA of their own"));
  }
  return allowed;
}

bool AllowedNames::Accepts(absl::string_view name) const {
  return any() || std::find(names_.begin(), names_.end(), name) != names_.end();
}

}  // namespace jobscope
