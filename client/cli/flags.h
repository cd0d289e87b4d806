// SPDX-License-Identifier: Apache-2.0
//
// Parses the command line and checks every flag's range; every error names its cause and the
// remedy.
#ifndef CLIENT_CLI_FLAGS_H_
#define CLIENT_CLI_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/rpc/credentials.h"
#include "common/options/recording_options.h"
#include "common/run/outcome.h"

namespace jobscope {

enum class Verb { kCapture, kCheck, kStop };

// The value of --protocol that stands for the native one if a worker speaks it.
inline constexpr char kAnyProtocol[] = "auto";

struct Flags {
  Verb verb = Verb::kCapture;
  std::string service_addr;
  std::string logdir;
  std::string session_id;
  int64_t duration_ms = 1000;
  int64_t num_tracing_attempts = 3;
  int64_t delay_ms = 0;
  int64_t connect_timeout_ms = 5000;
  int64_t transfer_timeout_ms = 120'000;
  int64_t max_parallel = 256;
  int64_t max_trace_mb = 0;
  int64_t max_duration_ms = 60'000;
  std::optional<int64_t> min_workers;
  std::optional<int64_t> steps;
  std::optional<int64_t> start_step;
  int64_t lookback_ms = 0;
  int64_t part_mb = 256;
  int64_t resume_timeout_ms = 5000;
  std::optional<int64_t> sample;
  RecordingOptions recording;
  std::string file_mode = "0600";
  std::optional<Protocol> protocol;  // absent: kAnyProtocol
  CredentialFlags credentials;
  bool json = false;
  bool report = false;  // `capture` only
  bool quiet = false;
  bool verbose = false;  // `check` only
  bool server = false;   // `stop` only
};

// What the command line asks for instead of running a verb.
struct FlagsResult {
  std::optional<Flags> flags;  // absent: print `text` and exit with `exit_code`
  std::string text;            // help, version (stdout) or the error (stderr)
  int exit_code = 0;
};

// Parses the arguments. `arguments[0]` is the name by which the program was called: as "jobscope"
// it requires a verb first; under any other name it captures unless the first argument is "check"
// or "stop". Pure: opens and dials nothing.
FlagsResult ParseFlags(const std::vector<std::string>& arguments);

}  // namespace jobscope

#endif  // CLIENT_CLI_FLAGS_H_
