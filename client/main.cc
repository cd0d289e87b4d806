// SPDX-License-Identifier: Apache-2.0
//
// The command line program: `capture`, and under the name `jobscope` the same with its verbs as
// subcommands.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/cli/base/exit.h"
#include "client/cli/base/exit_code.h"
#include "client/cli/base/interrupt.h"
#include "client/cli/flags.h"
#include "client/cli/verbs.h"
#include "common/descriptors/standard_descriptors.h"

namespace {

// Otherwise the next file to be opened would take the number of a closed standard descriptor, and
// the table would be written into a trace. Runs before all other initialisers: one of gRPC opens an
// eventfd.
__attribute__((constructor(101))) void KeepStandardDescriptors() {
  jobscope::OpenClosedStandard(/*flags=*/0);
}

// Prints help, or an error. Returns `exit_code`, or that of help that cannot be written.
int Print(const std::string& text, int exit_code) {
  if (exit_code == jobscope::kExitAll) return jobscope::PrintResult(text, exit_code);
  std::fputs(text.c_str(), stderr);
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  const jobscope::VerbResult named = jobscope::ParseVerb(arguments);
  if (named.verb == nullptr) return Print(named.text, named.exit_code);
  // The verb `run` becomes another program, so no signal may be blocked and no thread started.
  const jobscope::WorkerVerb* const verb = named.verb->worker_verb;
  if (verb == nullptr) return named.verb->run(arguments);
  const jobscope::FlagsResult parsed = jobscope::ParseFlags(*verb, named.program, named.arguments);
  if (!parsed.flags.has_value()) return Print(parsed.text, parsed.exit_code);
  // Outcomes report what gRPC would otherwise log for each failed connection. Overridable.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  jobscope::PrepareSignals();
  // Debian's abseil looks for lock cycles each time it takes a lock, an eighth of the cost of a
  // capture of hundreds of workers (measured with perf). Unit tests keep the check.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return verb->run(*parsed.flags);
}
