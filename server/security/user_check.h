// SPDX-License-Identifier: Apache-2.0
//
// Decides which connections within this host are admitted, by the user at their other end.
#ifndef SERVER_SECURITY_USER_CHECK_H_
#define SERVER_SECURITY_USER_CHECK_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "server/security/allowed_users.h"
#include "server/security/audit.h"

namespace jobscope {

// Judges connections to loopback addresses and Unix sockets whose callers need no credential.
// Refuses a user that the kernel does not report. Thread-safe.
class UserCheck {
 public:
  UserCheck(AllowedUsers allowed, std::shared_ptr<AuditLog> audit);

  // Returns whether the peer of the accepted socket `fd` is an allowed user; if not, writes an
  // audit line with its address `peer`. Takes microseconds; without sock_diag in the kernel, reads
  // a table of at most 16 MiB.
  bool Admits(int fd, absl::string_view peer);

  // Returns the text for a refused caller: whom this worker accepts, and what the operator can do.
  const std::string& refusal() const { return refusal_; }

 private:
  const AllowedUsers allowed_;
  const uid_t own_;
  const std::string refusal_;
  const std::shared_ptr<AuditLog> audit_;
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_USER_CHECK_H_
