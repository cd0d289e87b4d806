// SPDX-License-Identifier: Apache-2.0
//
// Finds the process's one recorder.
#ifndef SERVER_RECORDER_LOADER_H_
#define SERVER_RECORDER_LOADER_H_

#include "absl/status/statusor.h"
#include "collectors/host/reader.h"

namespace jobscope {

// The reader's table of libjobscope_trace.so, which stays loaded for good. The library that is
// loaded already comes first, whoever loaded it, by its bare SONAME: two paths would load two
// recorders, and the server would read the one that nobody writes to. After that the one beside our
// own library, then the loader's search path. NOT_FOUND: there is none; FAILED_PRECONDITION: one
// older than this code.
absl::StatusOr<const host::Reader*> LoadRecorder();

}  // namespace jobscope

#endif  // SERVER_RECORDER_LOADER_H_
