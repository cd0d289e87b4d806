// SPDX-License-Identifier: Apache-2.0
//
// Which connections within this host are let in, by the user at their other end.
#ifndef SERVER_SECURITY_USER_CHECK_H_
#define SERVER_SECURITY_USER_CHECK_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "server/security/allowed_users.h"
#include "server/security/audit.h"

namespace jobscope {

// Judges connections to loopback addresses and Unix sockets that ask their callers for no
// credential. A user whom the kernel does not tell is refused. Thread-safe.
class UserCheck {
 public:
  UserCheck(AllowedUsers allowed, std::shared_ptr<AuditLog> audit);

  // Whether the peer of the accepted socket `fd` is an allowed user. Leaves an audit line where it
  // is not. `peer` is its address, for that line. Takes microseconds; where the kernel has no
  // sock_diag, it reads a table of at most 16 MiB.
  bool Admits(int fd, absl::string_view peer);

  // What a refused caller is told: whom this worker accepts, and what the operator can do.
  const std::string& refusal() const { return refusal_; }

 private:
  const AllowedUsers allowed_;
  const uid_t own_;
  const std::string refusal_;
  const std::shared_ptr<AuditLog> audit_;
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_USER_CHECK_H_
