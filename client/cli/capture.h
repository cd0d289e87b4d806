// SPDX-License-Identifier: Apache-2.0
//
// The verb `capture`, from checked flags to exit code.
#ifndef CLIENT_CLI_CAPTURE_H_
#define CLIENT_CLI_CAPTURE_H_

#include "client/cli/flags.h"

namespace jobscope {

// Checks addresses and logdir before any worker is asked; records; writes run directory, manifest,
// table. Prints to stdout (table, or the manifest with --json) and stderr. Blocks for the whole
// capture. Returns the exit code.
int RunCapture(const Flags& flags);

}  // namespace jobscope

#endif  // CLIENT_CLI_CAPTURE_H_
