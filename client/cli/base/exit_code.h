// SPDX-License-Identifier: Apache-2.0
//
// Exit codes of the programs.
#ifndef CLIENT_CLI_BASE_EXIT_CODE_H_
#define CLIENT_CLI_BASE_EXIT_CODE_H_

#include <cstddef>

namespace jobscope {

inline constexpr int kExitAll = 0;
inline constexpr int kExitOutput = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitSome = 3;
inline constexpr int kExitNone = 4;
inline constexpr int kExitInterrupted = 130;

// Returns the exit code: all, some or none of `total` > 0 workers, without duplicates, delivered.
inline int ExitCode(size_t delivered, size_t total) {
  if (delivered == total) return kExitAll;
  return delivered == 0 ? kExitNone : kExitSome;
}

}  // namespace jobscope

#endif  // CLIENT_CLI_BASE_EXIT_CODE_H_
