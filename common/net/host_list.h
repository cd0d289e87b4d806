// SPDX-License-Identifier: Apache-2.0
//
// Expands host lists, as cluster schedulers write them.
#ifndef COMMON_NET_HOST_LIST_H_
#define COMMON_NET_HOST_LIST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace jobscope {

// Maximum number of workers in one list; a larger one is taken for a typing error ([1-99999]).
inline constexpr size_t kMaxEndpoints = 16384;

// Expands every bracket of one entry: "n[08-10]-[1,3].lan:6009", "h:[6009-6016]". Keeps leading
// zeros. Only the bracket of an IPv6 address can hold a colon: it is kept, with all that follows.
// INVALID_ARGUMENT names the entry.
absl::StatusOr<std::vector<std::string>> ExpandHostList(absl::string_view entry);

// Parses a number of one to nine digits. False: the text is something else.
bool ParseDigits(absl::string_view text, uint32_t* value);

}  // namespace jobscope

#endif  // COMMON_NET_HOST_LIST_H_
