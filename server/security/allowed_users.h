// SPDX-License-Identifier: Apache-2.0
//
// Decides which users of this host may connect to addresses that only this host reaches.
#ifndef SERVER_SECURITY_ALLOWED_USERS_H_
#define SERVER_SECURITY_ALLOWED_USERS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace jobscope {

// The allowed users. Immutable.
class AllowedUsers {
 public:
  // Allows the process's own user and root.
  AllowedUsers() = default;

  // Parses "" (own user and root), "any", or user ids in addition to these: "1001,1002". Refuses
  // user names: looking one up would load the host's name services into the job's process. Returns
  // INVALID_ARGUMENT, which does not name the setting of the text.
  static absl::StatusOr<AllowedUsers> Parse(absl::string_view text);

  bool any() const { return any_; }
  // Returns whether users other than the own one and root were named.
  bool others() const { return any_ || !more_.empty(); }
  // `own` is the process's effective user.
  bool Allows(uid_t user, uid_t own) const;
  // Returns "user 1000 (its own), root and users 1001, 1002", for refusals.
  std::string Text(uid_t own) const;

 private:
  bool any_ = false;
  std::vector<uid_t> more_;
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_ALLOWED_USERS_H_
