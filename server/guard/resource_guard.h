// SPDX-License-Identifier: Apache-2.0
//
// Whether the limits of the process leave room for a server and for a capture. gRPC and abseil end
// the process where a descriptor or memory is missing, and answer nothing where a thread is: so
// what they will need is looked for before they are touched. All functions are thread-safe.
#ifndef SERVER_GUARD_RESOURCE_GUARD_H_
#define SERVER_GUARD_RESOURCE_GUARD_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace jobscope {

// RESOURCE_EXHAUSTED, for a std::bad_alloc that ends something of ours. Made when the library is
// loaded: copying it allocates nothing.
const absl::Status& OutOfMemoryError();

// Memory for the least that an entry point of the library does. Before anything else there;
// allocates only to say no. RESOURCE_EXHAUSTED.
absl::Status CheckRoomToEnter();

// Descriptors, threads and memory that a server takes, and a small capture in it. Takes about 1 ms.
// RESOURCE_EXHAUSTED names what is missing and what to do.
absl::Status CheckRoomForServer();

struct CaptureRoom {
  // RESOURCE_EXHAUSTED: not even one collector, or no store, has room.
  absl::Status status;
  size_t collectors = 0;     // that can have their thread, at most those asked for
  uint64_t store_bytes = 0;  // at most what was asked for
  std::string warning;       // for the trace, when the store is smaller; else empty
};

// What the process can give to a capture now: at most half of the memory that is left, and all but
// a few threads. Takes about 1 ms. Called on the session's thread.
CaptureRoom FindRoomForCapture(size_t collectors, uint64_t store_bytes);

}  // namespace jobscope

#endif  // SERVER_GUARD_RESOURCE_GUARD_H_
