// SPDX-License-Identifier: Apache-2.0
//
// Finds the process's only recorder.
#ifndef SERVER_PROCESS_RECORDER_LOADER_H_
#define SERVER_PROCESS_RECORDER_LOADER_H_

#include "absl/status/statusor.h"
#include "collectors/host/recorder/reader_abi.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope {

// A type alias, because a function hides the struct of the same name that it returns.
using RecorderTable = struct ::jobscope_trace_reader;

// Returns the reader's table of libjobscope_trace.so, which is never unloaded. Prefers the
// library that is already loaded, by its bare SONAME: two paths would load two recorders, and the
// server would read the one that is not written to. Then tries the file beside our own library,
// then the loader's search path. Returns NOT_FOUND if there is none, FAILED_PRECONDITION if it is
// older than this code.
absl::StatusOr<const RecorderTable*> LoadRecorder();

using WriterTable = struct ::jobscope_trace_writer_table;

// Returns the writer's table of the same library.
absl::StatusOr<const WriterTable*> LoadWriter();

}  // namespace jobscope

#endif  // SERVER_PROCESS_RECORDER_LOADER_H_
