// SPDX-License-Identifier: Apache-2.0
//
// Which collectors of frameworks take part in a capture: the words of --frameworks.
#ifndef COMMON_OPTIONS_FRAMEWORK_CHOICE_H_
#define COMMON_OPTIONS_FRAMEWORK_CHOICE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace jobscope {

// "auto" (the default): all whose framework the process has loaded; "none"; or names of
// collectors, "torch,jax".
class FrameworkChoice {
 public:
  static constexpr size_t kMaxNames = 16;
  static constexpr size_t kMaxNameBytes = 64;

  FrameworkChoice() = default;

  // Empty text is "auto". INVALID_ARGUMENT says what is wrong with the text, without naming the
  // flag or field it came from. Whether a worker has a collector of a name is for the worker to
  // say.
  static absl::StatusOr<FrameworkChoice> Parse(std::string_view text);

  bool Takes(std::string_view name) const;
  // Named one by one, so that a collector which cannot take part owes a reason; empty for "auto"
  // and "none".
  const std::vector<std::string>& names() const { return names_; }
  std::string text() const;

 private:
  bool automatic_ = true;
  std::vector<std::string> names_;
};

}  // namespace jobscope

#endif  // COMMON_OPTIONS_FRAMEWORK_CHOICE_H_
