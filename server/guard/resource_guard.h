// SPDX-License-Identifier: Apache-2.0
//
// Checks whether the limits of the process leave room for a server and for a capture. gRPC and
// abseil end the process if a descriptor or memory is missing, and answer nothing if a thread is;
// so these functions check before gRPC is used. All functions are thread-safe.
#ifndef SERVER_GUARD_RESOURCE_GUARD_H_
#define SERVER_GUARD_RESOURCE_GUARD_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace jobscope {

// The RESOURCE_EXHAUSTED error for a std::bad_alloc. Created when the library is loaded: copying it
// allocates nothing.
const absl::Status& OutOfMemoryError();

// Returns `make()`, or `code` without a text if memory runs out in it. Throws nothing.
absl::Status StatusOrCode(absl::StatusCode code, absl::FunctionRef<absl::Status()> make);

// Returns whether so many bytes can be allocated now: before a call into gRPC that cannot be
// repeated after an exception.
bool HeapHas(size_t bytes);

// Checks that there is memory for the least that an entry point of the library does. Call it before
// anything else there; allocates only for the error. Returns RESOURCE_EXHAUSTED.
absl::Status CheckRoomToEnter();

// Checks descriptors, threads and memory for a server with a small capture in it. Takes about 1 ms.
// RESOURCE_EXHAUSTED names what is missing and the remedy.
absl::Status CheckRoomForServer();

struct CaptureRoom {
  // RESOURCE_EXHAUSTED: there is no room for even one collector, or for a store.
  absl::Status status;
  size_t collectors = 0;     // how many can have their thread, at most those requested
  uint64_t store_bytes = 0;  // at most as requested
  std::string warning;       // for the trace, if the store is smaller; else empty
};

// Returns what the process can give to a capture now: at most half of the free memory, and all but
// a few threads. Takes about 1 ms. Called on the session thread.
CaptureRoom FindRoomForCapture(size_t collectors, uint64_t store_bytes);

}  // namespace jobscope

#endif  // SERVER_GUARD_RESOURCE_GUARD_H_
