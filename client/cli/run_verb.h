// SPDX-License-Identifier: Apache-2.0
//
// The verb `run`: starts a program whose Python interpreters and other training programs become
// workers, with no change to them.
#ifndef CLIENT_CLI_RUN_VERB_H_
#define CLIENT_CLI_RUN_VERB_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace jobscope {

struct RunFlags {
  std::string listen;          // --listen; empty: JOBSCOPE_LISTEN, else 127.0.0.1:0
  std::string attach_library;  // --attach_library; empty: looked for beside this program
  std::string
      port_dir;  // --port_dir; empty: JOBSCOPE_PORT_DIR, else one that is removed at the end
  bool quiet = false;
  std::vector<std::string> command;  // at least the program
};

// What the command line asks for besides running a program.
struct RunFlagsResult {
  bool run = false;  // false: print `text` and exit with `exit_code`
  RunFlags flags;
  std::string text;
  int exit_code = 0;
};

// `arguments`: those after "run": flags, "--", the program and its own arguments. Pure.
RunFlagsResult ParseRunFlags(const std::vector<std::string>& arguments);

// Where libjobscope_attach.so lies, by its absolute path: `given`, or looked for from `folder`,
// that of this program: beside it, in a build tree, in an installed tree. libjobscope.so must be
// beside it, and the dynamic linker must be able to take the path from LD_PRELOAD.
absl::StatusOr<std::string> FindAttachLibrary(const std::string& given, const std::string& folder);

// Becomes the program: same process, so that signals, exit code and the caller's time limits are its
// own affair. What prints the workers' addresses and removes the port directory is a process beside
// it, no child of it, which ends with it. Returns only if there is no such program, with the exit
// code for that: 126 it can't be run, 127 there is none, 2 usage.
int RunProgram(const RunFlags& flags);

// For main, with all of its arguments: whether the program was called as `jobscope run ...`, and
// that verb as a whole.
bool IsRunVerb(const std::vector<std::string>& arguments);
int RunVerb(const std::vector<std::string>& arguments);

}  // namespace jobscope

#endif  // CLIENT_CLI_RUN_VERB_H_
