// SPDX-License-Identifier: Apache-2.0
//
// Reads JOBSCOPE_LISTEN, as far as needed before the server is loaded: libjobscope.so parses it
// completely, and reports what is wrong with it. Uses only the C library.
#ifndef SERVER_ATTACH_LISTEN_TEXT_H_
#define SERVER_ATTACH_LISTEN_TEXT_H_

#include <stddef.h>

namespace jobscope::attach {

// As jobscope_server_options.address allows.
inline constexpr size_t kMaxListenBytes = 1024;

// Copies `listen` for the server. A process without a rank is a job of its own: if `local_rank` is
// -1, leaves out "+rank", so that one setting serves both. Returns false if the text is too long.
bool WriteAddress(const char* listen, int local_rank, char* address, size_t size);

// Returns whether another socket listens on `address` now, if that is known without a name service:
// for a numeric host or "localhost" and a port other than 0, and for a Unix socket. Uses
// `local_rank` if the address ends in "+rank". Binds to a port for an instant, without listening,
// so that two processes that check at the same time do not see each other; connects to a Unix
// socket.
bool IsTaken(const char* address, int local_rank);

}  // namespace jobscope::attach

#endif  // SERVER_ATTACH_LISTEN_TEXT_H_
