// SPDX-License-Identifier: Apache-2.0
//
// Declares the flags of the verb `capture`.
#ifndef CLIENT_CLI_CAPTURE_FLAGS_H_
#define CLIENT_CLI_CAPTURE_FLAGS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "client/cli/base/worker_verb.h"

namespace jobscope {

// The functions of WorkerVerb for `capture`.
void AddCaptureFlags(CLI::App* app, Flags* flags, absl::Status* bad_value);
absl::Status CheckCaptureFlags(const CLI::App& app, Flags* checked);

// Returns the values of all flags that are numbers, by name without dashes, for the manifest.
std::map<std::string, int64_t> CaptureNumbers(const Flags& flags);

}  // namespace jobscope

#endif  // CLIENT_CLI_CAPTURE_FLAGS_H_
