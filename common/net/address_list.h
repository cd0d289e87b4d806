// SPDX-License-Identifier: Apache-2.0
//
// Parses lists of workers as users write them: commas, host lists, names with many addresses,
// files, port directories.
#ifndef COMMON_NET_ADDRESS_LIST_H_
#define COMMON_NET_ADDRESS_LIST_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/net/endpoint.h"
#include "common/net/host_list.h"
#include "common/net/resolver.h"

namespace jobscope {

// Bounds a list on the command line, and one file of addresses.
inline constexpr size_t kMaxAddressListBytes = 1 << 20;

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
// one sentence for each directory with equal addresses in different files.
absl::StatusOr<std::vector<Endpoint>> ParseAddressList(absl::string_view list,
                                                       const Resolver& resolver = ResolveWithSystem,
                                                       std::vector<std::string>* notes = nullptr);

}  // namespace jobscope

#endif  // COMMON_NET_ADDRESS_LIST_H_
