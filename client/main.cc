// SPDX-License-Identifier: Apache-2.0
//
// The command line program: `capture`, and under the name `jobscope` the same with its verbs as
// subcommands.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "analysis/cli/diff_verb.h"
#include "analysis/cli/report_verb.h"
#include "client/cli/capture.h"
#include "client/cli/flags.h"
#include "client/cli/interrupt.h"
#include "client/cli/run/run_verb.h"
#include "client/cli/survey.h"

namespace {

// Opens /dev/null for closed standard descriptors: the next file to be opened would take the
// number, and the table would be written into a trace. Runs before all other initialisers: one of
// gRPC opens an eventfd.
__attribute__((constructor(101))) void KeepStandardDescriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", O_RDWR);  // takes the lowest free number
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  // `run` asks no worker: it becomes another program, so no signal may be blocked and no thread
  // started.
  if (jobscope::IsRunVerb(arguments)) return jobscope::RunVerb(arguments);
  if (jobscope::analysis::IsReportVerb(arguments)) {
    return jobscope::analysis::ReportVerb(arguments);
  }
  if (jobscope::analysis::IsDiffVerb(arguments)) return jobscope::analysis::DiffVerb(arguments);
  const jobscope::FlagsResult parsed = jobscope::ParseFlags(arguments);
  if (!parsed.flags.has_value()) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  // Outcomes report what gRPC would otherwise log for each failed connection. Overridable.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  jobscope::PrepareSignals();
  // Debian's abseil looks for lock cycles each time it takes a lock, an eighth of the cost of a
  // capture of hundreds of workers (measured with perf). Unit tests keep the check.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  switch (parsed.flags->verb) {
    case jobscope::Verb::kCapture:
      return jobscope::RunCapture(*parsed.flags);
    case jobscope::Verb::kCheck:
      return jobscope::RunCheck(*parsed.flags);
    case jobscope::Verb::kStop:
      return jobscope::RunStop(*parsed.flags);
  }
  return 0;
}
