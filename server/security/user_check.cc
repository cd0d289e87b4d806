// SPDX-License-Identifier: Apache-2.0
#include "server/security/user_check.h"

#include <unistd.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/net/socket_owner.h"

namespace jobscope {

UserCheck::UserCheck(AllowedUsers allowed, std::shared_ptr<AuditLog> audit)
    : allowed_(std::move(allowed)),
      own_(geteuid()),
      refusal_(absl::StrCat(
          "this worker accepts callers of ", allowed_.Text(own_),
          " only: call as one of them, or have the worker started with JOBSCOPE_ALLOW_USERS=<user "
          "id> (options.allow_users), a token or mutual TLS")),
      audit_(std::move(audit)) {}

bool UserCheck::Admits(int fd, absl::string_view peer) {
  if (allowed_.any()) return true;
  const auto user = PeerUser(fd);
  if (user.ok() && allowed_.Allows(*user, own_)) return true;
  // Refuses a caller that has disconnected without a line: they are frequent and harmless.
  if (absl::IsNotFound(user.status())) return false;
  const std::string who = user.ok()
                              ? absl::StrCat("user ", *user)
                              : absl::StrCat("an unknown user (", user.status().message(), ")");
  audit_->Write({AuditKind::kRefusal, "connection", peer.empty() ? "unix:" : peer, who,
                 absl::ZeroDuration(), absl::PermissionDeniedError(refusal_), ""});
  return false;
}

}  // namespace jobscope
