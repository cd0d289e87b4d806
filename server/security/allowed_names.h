// SPDX-License-Identifier: Apache-2.0
//
// Decides which names in a caller's certificate are accepted.
#ifndef SERVER_SECURITY_ALLOWED_NAMES_H_
#define SERVER_SECURITY_ALLOWED_NAMES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace jobscope {

// The accepted names. Immutable.
class AllowedNames {
 public:
  // Accepts every certificate.
  AllowedNames() = default;

  // Parses names separated by commas, "alice,bob@example.com"; blanks around a name do not belong
  // to it. A name has no pattern. Returns INVALID_ARGUMENT, which names the setting.
  static absl::StatusOr<AllowedNames> Parse(absl::string_view text);

  // Returns whether every certificate is accepted.
  bool any() const { return names_.empty(); }
  // Returns whether a certificate is accepted because it has `name`: the bytes must be equal, so a
  // name that contains a zero byte is not the text before it.
  bool Accepts(absl::string_view name) const;

 private:
  std::vector<std::string> names_;
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_ALLOWED_NAMES_H_
