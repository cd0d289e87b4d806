// SPDX-License-Identifier: Apache-2.0
//
// Declares the flags of the verbs that contact workers, and the functions that such a verb has.
#ifndef CLIENT_CLI_BASE_WORKER_VERB_H_
#define CLIENT_CLI_BASE_WORKER_VERB_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/rpc/credentials.h"
#include "common/options/recording_options.h"
#include "common/run/outcome.h"

namespace CLI {
class App;
}

namespace jobscope {

struct Flags {
  // Of all these verbs.
  std::string service_addr;
  int64_t connect_timeout_ms = 5000;
  int64_t max_parallel = 256;
  CredentialFlags credentials;
  bool json = false;
  bool quiet = false;

  // Of `capture`.
  std::string logdir;
  std::string session_id;  // also of `stop`
  int64_t duration_ms = 1000;
  int64_t num_tracing_attempts = 3;
  int64_t delay_ms = 0;
  int64_t transfer_timeout_ms = 120'000;
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
  std::optional<Protocol> protocol;  // absent: the native one if a worker speaks it
  bool report = false;

  // Of `check`.
  bool verbose = false;

  // Of `stop`.
  bool server = false;
};

// A verb that contacts workers, and its own flags. ParseFlags (client/cli/flags.h) adds those that
// all of these verbs have.
struct WorkerVerb {
  // Sets the description and the footer, which lists the exit codes, and adds the flags.
  // `bad_value` receives the first value that is wrong, when they are parsed.
  void (*add_flags)(CLI::App* app, Flags* flags, absl::Status* bad_value);
  // Checks the values of these flags, after those of all verbs, and sets the defaults that depend
  // on other flags.
  absl::Status (*check_flags)(const CLI::App& app, Flags* flags);
  // Runs the verb; returns the exit code.
  int (*run)(const Flags& flags);
};

}  // namespace jobscope

#endif  // CLIENT_CLI_BASE_WORKER_VERB_H_
