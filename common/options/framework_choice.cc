// SPDX-License-Identifier: Apache-2.0
#include "common/options/framework_choice.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

constexpr char kGrammar[] = "give auto, none, or names such as torch,jax";

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

}  // namespace

absl::StatusOr<FrameworkChoice> FrameworkChoice::Parse(std::string_view text) {
  FrameworkChoice choice;
  if (text.empty() || text == "auto") return choice;
  choice.automatic_ = false;
  if (text == "none") return choice;
  if (text.size() > kMaxNames * (kMaxNameBytes + 1)) {
    return absl::InvalidArgumentError(absl::StrCat("it has ", text.size(), " bytes; ", kGrammar));
  }
  const std::vector<std::string> names = absl::StrSplit(std::string(text), ',');
  for (const std::string& name : names) {
    const bool good = !name.empty() && name.size() <= kMaxNameBytes &&
                      std::all_of(name.begin(), name.end(), IsNameCharacter);
    if (!good || name == "auto" || name == "none") {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", Printable(name), "\" is not a name in a list; ", kGrammar));
    }
    if (std::find(choice.names_.begin(), choice.names_.end(), name) == choice.names_.end()) {
      choice.names_.push_back(name);
    }
  }
  if (choice.names_.size() > kMaxNames) {
    return absl::InvalidArgumentError(
        absl::StrCat("it names ", choice.names_.size(), " frameworks; at most ", kMaxNames));
  }
  return choice;
}

bool FrameworkChoice::Takes(std::string_view name) const {
  return automatic_ || std::find(names_.begin(), names_.end(), name) != names_.end();
}

std::string FrameworkChoice::text() const {
  if (automatic_) return "auto";
  return names_.empty() ? "none" : absl::StrJoin(names_, ",");
}

}  // namespace jobscope
