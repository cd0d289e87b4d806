// SPDX-License-Identifier: Apache-2.0
//
// Implements the verb `capture`, from its flags to the exit code.
#ifndef CLIENT_CLI_CAPTURE_H_
#define CLIENT_CLI_CAPTURE_H_

#include "client/cli/base/worker_verb.h"

namespace jobscope {

// Checks addresses and logdir before it contacts any worker; records; writes run directory,
// manifest and table. Prints to stdout (the table, or the manifest with --json) and stderr. Blocks
// for the whole capture.
extern const WorkerVerb kCaptureVerb;

}  // namespace jobscope

#endif  // CLIENT_CLI_CAPTURE_H_
