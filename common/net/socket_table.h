// SPDX-License-Identifier: Apache-2.0
//
// Reads the kernel's tables of TCP sockets and of users: /proc/net/tcp, /proc/self/uid_map,
// /proc/sys/kernel/overflowuid.
#ifndef COMMON_NET_SOCKET_TABLE_H_
#define COMMON_NET_SOCKET_TABLE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace jobscope {

struct TcpSocket {
  uint32_t state = 0;
  uint32_t user = 0;
  uint64_t inode = 0;
};

// Returns the socket between the addresses `local` and `remote`, in the notation of the table at
// `path` ("0100007F:1F90"). If the table was read to its end and does not list it, sets `*readable`
// to true and returns nullopt. Reads at most 16 MiB. Thread-safe.
std::optional<TcpSocket> SearchTable(const char* path, absl::string_view local,
                                     absl::string_view remote, bool* readable);

// Returns whether every user of the host has a number in the user namespace of this
// /proc/self/uid_map, so that no number stands for users without one.
bool AllUsersHaveNumbers(const char* uid_map_path);

// Returns whether `user` may be a user without a number in the user namespace of this
// /proc/self/uid_map. The kernel reports all of those as the number in this
// /proc/sys/kernel/overflowuid: 65534, unless the administrator has set another.
bool MayLackANumber(uint32_t user, const char* uid_map_path, const char* overflow_uid_path);

}  // namespace jobscope

#endif  // COMMON_NET_SOCKET_TABLE_H_
