// SPDX-License-Identifier: Apache-2.0
#include "server/security/allowed_users.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {
constexpr size_t kMaxUsers = 256;
}  // namespace

absl::StatusOr<AllowedUsers> AllowedUsers::Parse(absl::string_view text) {
  AllowedUsers users;
  text = absl::StripAsciiWhitespace(text);
  if (text.empty()) return users;
  if (text == "any") {
    users.any_ = true;
    return users;
  }
  for (absl::string_view entry : absl::StrSplit(text, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    uint32_t user = 0;
    const bool digits =
        !entry.empty() && std::all_of(entry.begin(), entry.end(), absl::ascii_isdigit);
    if (!digits || !absl::SimpleAtoi(entry, &user) || user == static_cast<uid_t>(-1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", Printable(entry, 64),
          "\" is not a user id: write numbers, as `id -u NAME` prints them, separated by "
          "commas, or any"));
    }
    users.more_.push_back(user);
  }
  if (users.more_.size() > kMaxUsers) {
    return absl::InvalidArgumentError(
        absl::StrCat("it names ", users.more_.size(), " users; at most ", kMaxUsers));
  }
  return users;
}

bool AllowedUsers::Allows(uid_t user, uid_t own) const {
  return any_ || user == own || user == 0 ||
         std::find(more_.begin(), more_.end(), user) != more_.end();
}

std::string AllowedUsers::Text(uid_t own) const {
  if (any_) return "every user";
  std::string text = own == 0 ? "root (its own user)" : absl::StrCat("user ", own, " (its own)");
  if (!more_.empty()) {
    absl::StrAppend(&text, ", user", more_.size() > 1 ? "s " : " ", absl::StrJoin(more_, ", "));
  }
  if (own != 0) absl::StrAppend(&text, " and root");
  return text;
}

}  // namespace jobscope
