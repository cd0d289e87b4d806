// SPDX-License-Identifier: Apache-2.0
//
// Parses the flags of the verbs that contact workers and checks every flag's range; every error
// names its cause and the remedy.
#ifndef CLIENT_CLI_FLAGS_H_
#define CLIENT_CLI_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/base/worker_verb.h"

namespace jobscope {

// A day: far beyond any capture that fits into a store, and far below any overflow.
inline constexpr int64_t kMaxMs = 86'400'000;

// The value of --protocol that stands for the native one if a worker speaks it.
inline constexpr char kAnyProtocol[] = "auto";

// What the command line asks for instead of running a verb.
struct FlagsResult {
  std::optional<Flags> flags;  // absent: print `text` and exit with `exit_code`
  std::string text;            // help, version (stdout) or the error (stderr)
  int exit_code = 0;
};

// Parses the arguments after the verb. `program` is the name that messages begin with. Pure: opens
// and dials nothing.
FlagsResult ParseFlags(const WorkerVerb& verb, const std::string& program,
                       const std::vector<std::string>& arguments);

// For check_flags: returns INVALID_ARGUMENT if `value` is not in [low, high].
absl::Status CheckRange(const char* flag, int64_t value, int64_t low, int64_t high);

}  // namespace jobscope

#endif  // CLIENT_CLI_FLAGS_H_
