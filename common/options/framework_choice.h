// SPDX-License-Identifier: Apache-2.0
//
// Defines which framework collectors take part in a capture: the values of --frameworks.
#ifndef COMMON_OPTIONS_FRAMEWORK_CHOICE_H_
#define COMMON_OPTIONS_FRAMEWORK_CHOICE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace jobscope {

// Selects the frameworks to record: "auto" (the default) for all that the process has loaded,
// "none", or names of collectors ("torch,jax").
class FrameworkChoice {
 public:
  static constexpr size_t kMaxNames = 16;
  static constexpr size_t kMaxNameBytes = 64;

  FrameworkChoice() = default;

  // Parses a choice; empty text is "auto". INVALID_ARGUMENT describes the error without naming the
  // flag or field that the text came from. Does not check that a worker has a collector of that
  // name; the worker does.
  static absl::StatusOr<FrameworkChoice> Parse(std::string_view text);

  bool Takes(std::string_view name) const;
  // Collectors that were named explicitly and must give a reason when they cannot take part; empty
  // for "auto" and "none".
  const std::vector<std::string>& names() const { return names_; }
  std::string text() const;

 private:
  bool automatic_ = true;
  std::vector<std::string> names_;
};

}  // namespace jobscope

#endif  // COMMON_OPTIONS_FRAMEWORK_CHOICE_H_
