// SPDX-License-Identifier: Apache-2.0
//
// Lists of workers as users write them: commas, host lists, names with many addresses, files, port
// directories.
#ifndef COMMON_NET_ADDRESS_LIST_H_
#define COMMON_NET_ADDRESS_LIST_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/net/endpoint.h"

namespace jobscope {

// More workers than this in one list is taken for a slip of the hand ([1-99999]).
inline constexpr size_t kMaxEndpoints = 16384;
// Bytes of a list on the command line, and of one file of addresses.
inline constexpr size_t kMaxAddressListBytes = 1 << 20;

// The addresses behind a name, without port ("10.0.0.1", "fd00::1"), in any order. May block as
// long as resolvers do.
using Resolver = std::function<absl::StatusOr<std::vector<std::string>>(const std::string& name)>;

// Asks the system's resolver (getaddrinfo). Where a name has addresses of both families, those of
// IPv4 are returned: otherwise each dual-stack worker would be two.
absl::StatusOr<std::vector<std::string>> ResolveWithSystem(const std::string& name);

// Expands a comma-separated list. An entry is
//   an address (endpoint.h);
//   a host list, node[01-16]:6009 or node[1-3,7]:[6009-6016]: each bracket is expanded, leading
//   zeros are kept; dns:///name:port: every address behind the name is a worker;
//   @file: one entry per line, '#' begins a comment;   @directory: one address in each of its files
//   *.addr.
// Order is kept; a directory's files come in the order of the numbers in their names. At least one
// endpoint, at most kMaxEndpoints, all different: otherwise kInvalidArgument, naming the culprit
// and where it stands. kUnavailable: a name could not be resolved.
absl::StatusOr<std::vector<Endpoint>> ParseAddressList(
    absl::string_view list, const Resolver& resolver = ResolveWithSystem);

}  // namespace jobscope

#endif  // COMMON_NET_ADDRESS_LIST_H_
