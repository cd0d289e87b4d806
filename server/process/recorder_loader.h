// SPDX-License-Identifier: Apache-2.0
//
// Finds the process's one recorder.
#ifndef SERVER_PROCESS_RECORDER_LOADER_H_
#define SERVER_PROCESS_RECORDER_LOADER_H_

#include "absl/status/statusor.h"
#include "collectors/host/recorder/reader_abi.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope {

// The struct shares its name with the function that returns it, and a function hides a struct.
using RecorderTable = struct ::jobscope_trace_reader;

// The reader's table of libjobscope_trace.so, which stays loaded for good. The library that is
// loaded already comes first, whoever loaded it, by its bare SONAME: two paths would load two
// recorders, and the server would read the one that nobody writes to. After that the one beside our
// own library, then the loader's search path. NOT_FOUND: there is none; FAILED_PRECONDITION: one
// older than this code.
absl::StatusOr<const RecorderTable*> LoadRecorder();

using WriterTable = struct ::jobscope_trace_writer_table;

// The writer's table of the same library.
absl::StatusOr<const WriterTable*> LoadWriter();

}  // namespace jobscope

#endif  // SERVER_PROCESS_RECORDER_LOADER_H_
