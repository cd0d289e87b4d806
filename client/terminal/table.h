// SPDX-License-Identifier: Apache-2.0
//
// Formats tables for people: one line per worker.
#ifndef CLIENT_TERMINAL_TABLE_H_
#define CLIENT_TERMINAL_TABLE_H_

#include <string>

#include "common/run/manifest.h"

namespace jobscope {

// Returns the table at the end of a capture and the lines below it: deliveries, events, losses,
// warnings, run directory.
std::string CaptureTable(const Manifest& manifest);
// Returns the table of `check`: workers and their state, GPUs below their worker, and below the
// table the collectors, once for all workers that have the same. `verbose`: with the collectors
// that have nothing to record in a worker.
std::string CheckTable(const Manifest& manifest, bool verbose = false);
// Returns the table of `stop`.
std::string StopTable(const Manifest& manifest);

}  // namespace jobscope

#endif  // CLIENT_TERMINAL_TABLE_H_
