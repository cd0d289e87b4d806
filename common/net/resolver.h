// SPDX-License-Identifier: Apache-2.0
//
// Finds the addresses of a name.
#ifndef COMMON_NET_RESOLVER_H_
#define COMMON_NET_RESOLVER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace jobscope {

// Returns the addresses of a name, without port ("10.0.0.1", "fd00::1"), in any order. May block as
// long as DNS resolvers do.
using Resolver = std::function<absl::StatusOr<std::vector<std::string>>(const std::string& name)>;

// Asks the system's resolver (getaddrinfo). For a name with addresses of both families it returns
// only IPv4: otherwise each dual-stack worker would appear twice.
absl::StatusOr<std::vector<std::string>> ResolveWithSystem(const std::string& name);

}  // namespace jobscope

#endif  // COMMON_NET_RESOLVER_H_
