// SPDX-License-Identifier: Apache-2.0
//
// JOBSCOPE_LISTEN, as far as it must be understood before the server is loaded: libjobscope.so
// reads it properly, and says what is wrong with it. C library only.
#ifndef SERVER_ATTACH_LISTEN_TEXT_H_
#define SERVER_ATTACH_LISTEN_TEXT_H_

#include <stddef.h>

namespace jobscope::attach {

// As jobscope_server_options.address allows.
inline constexpr size_t kMaxListenBytes = 1024;

// Copies `listen` for the server. A process that nobody gave a rank is a job of its own: where
// `local_rank` is -1, "+rank" is left out, so that one setting serves both. False: too long.
bool WriteAddress(const char* listen, int local_rank, char* address, size_t size);

// Whether somebody listens on `address` now, where that can be told without asking a name service:
// for a numeric host and a port other than 0. `local_rank` counts where the address ends in
// "+rank". Binds for an instant, without listening, so that two processes that look at the same
// time do not see each other.
bool IsTaken(const char* address, int local_rank);

}  // namespace jobscope::attach

#endif  // SERVER_ATTACH_LISTEN_TEXT_H_
