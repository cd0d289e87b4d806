// SPDX-License-Identifier: Apache-2.0
//
// Implements the verb `run`: starts a program whose Python interpreters and other training programs
// become workers, without changes to them.
#ifndef CLIENT_CLI_RUN_RUN_VERB_H_
#define CLIENT_CLI_RUN_RUN_VERB_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace jobscope {

struct RunFlags {
  std::string listen;          // --listen; empty: JOBSCOPE_LISTEN, else 127.0.0.1:0
  std::string attach_library;  // --attach_library; empty: searched for beside this program
  // --port_dir; empty: JOBSCOPE_PORT_DIR, else one that is removed at the end.
  std::string port_dir;
  bool quiet = false;
  std::vector<std::string> command;  // at least the program
};

// What the command line asks for instead of running a program.
struct RunFlagsResult {
  bool run = false;  // false: print `text` and exit with `exit_code`
  RunFlags flags;
  std::string text;
  int exit_code = 0;
};

// Parses the `arguments` after "run": flags, "--", the program and its own arguments. Pure.
RunFlagsResult ParseRunFlags(const std::vector<std::string>& arguments);

// Returns the absolute path of libjobscope_attach.so: `given`, or the first one found from
// `folder`, this program's: beside it, in a build tree, in an installed tree. libjobscope.so must
// be beside it, and LD_PRELOAD must be able to hold the path.
absl::StatusOr<std::string> FindAttachLibrary(const std::string& given, const std::string& folder);

// Replaces this process by the program: signals, exit code and the caller's time limits apply to it
// directly. A separate process, not its child, prints the workers' addresses, removes the port
// directory, and ends with the program. Returns only on failure, with the exit code: 126 cannot be
// run, 127 not found, 2 usage.
int RunProgram(const RunFlags& flags);

// Runs the whole verb, given all arguments of main.
int RunVerb(const std::vector<std::string>& arguments);

}  // namespace jobscope

#endif  // CLIENT_CLI_RUN_RUN_VERB_H_
