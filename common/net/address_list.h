// SPDX-License-Identifier: Apache-2.0
//
// Parses lists of workers as users write them: commas, host lists, names with many addresses,
// files, port directories.
#ifndef COMMON_NET_ADDRESS_LIST_H_
#define COMMON_NET_ADDRESS_LIST_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/net/endpoint.h"

namespace jobscope {

// Maximum number of workers in one list; a larger one is taken for a typing error ([1-99999]).
inline constexpr size_t kMaxEndpoints = 16384;
// Bounds a list on the command line, and one file of addresses.
inline constexpr size_t kMaxAddressListBytes = 1 << 20;

// Returns the addresses of a name, without port ("10.0.0.1", "fd00::1"), in any order. May block as
// long as DNS resolvers do.
using Resolver = std::function<absl::StatusOr<std::vector<std::string>>(const std::string& name)>;

// Asks the system's resolver (getaddrinfo). For a name with addresses of both families it returns
// only IPv4: otherwise each dual-stack worker would appear twice.
absl::StatusOr<std::vector<std::string>> ResolveWithSystem(const std::string& name);

// Expands a comma-separated list. An entry is one of
//
//   host:port               an address (endpoint.h)
//   node[01-16]:6009        a host list; also node[1-3,7]:[6009-6016]. Each bracket is expanded,
//                           leading zeros are kept
//   dns:///name:port        every address of the name is a worker
//   @file                   one entry per line, '#' begins a comment
//   @directory              one address in each of its files *.addr, by the numbers in their names;
//                           equal ones are one worker, as killed workers leave their files; files
//                           that are removed meanwhile are skipped
//
// Keeps the order. Returns 1 to kMaxEndpoints endpoints, all different. kInvalidArgument names the
// offending entry and its position. kUnavailable: a name could not be resolved. Appends to `notes`
// one sentence for each directory with equal addresses.
absl::StatusOr<std::vector<Endpoint>> ParseAddressList(absl::string_view list,
                                                       const Resolver& resolver = ResolveWithSystem,
                                                       std::vector<std::string>* notes = nullptr);

}  // namespace jobscope

#endif  // COMMON_NET_ADDRESS_LIST_H_
