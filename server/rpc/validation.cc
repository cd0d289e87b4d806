// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/validation.h"

#include "absl/strings/str_cat.h"

namespace jobscope {

absl::Status OutOfRange(absl::string_view field, absl::string_view value, absl::string_view range,
                        absl::string_view hint) {
  return absl::InvalidArgumentError(absl::StrCat(field, " = ", value, " is out of range: ", range,
                                                 hint.empty() ? "" : "; ", hint));
}

absl::Status CheckSize(absl::string_view field, size_t bytes, size_t max_bytes) {
  if (bytes <= max_bytes) return absl::OkStatus();
  return OutOfRange(field, absl::StrCat(bytes, " bytes"),
                    absl::StrCat("at most ", max_bytes, " bytes"));
}

}  // namespace jobscope
