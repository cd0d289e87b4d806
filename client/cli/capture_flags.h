// SPDX-License-Identifier: Apache-2.0
//
// Declares the flags of the verb `capture`.
#ifndef CLIENT_CLI_CAPTURE_FLAGS_H_
#define CLIENT_CLI_CAPTURE_FLAGS_H_

#include "absl/status/status.h"
#include "client/cli/base/worker_verb.h"

namespace jobscope {

// The functions of WorkerVerb for `capture`.
void AddCaptureFlags(CLI::App* app, Flags* flags, absl::Status* bad_value);
absl::Status CheckCaptureFlags(const CLI::App& app, Flags* checked);

}  // namespace jobscope

#endif  // CLIENT_CLI_CAPTURE_FLAGS_H_
