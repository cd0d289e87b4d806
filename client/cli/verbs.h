// SPDX-License-Identifier: Apache-2.0
//
// The table of verbs, and which of them a command line names. A new verb is one row in verbs.cc.
#ifndef CLIENT_CLI_VERBS_H_
#define CLIENT_CLI_VERBS_H_

#include <string>
#include <vector>

#include "client/cli/base/worker_verb.h"

namespace jobscope {

struct VerbEntry {
  const char* name;
  const char* summary;            // in the list of verbs
  const WorkerVerb* worker_verb;  // nullptr: the verb contacts no worker
  // For a verb that contacts no worker: runs it with all arguments of main; returns the exit code.
  int (*run)(const std::vector<std::string>& arguments);
};

// Returns the names of all verbs, in the order of the table.
std::vector<std::string> VerbNames();

struct VerbResult {
  const VerbEntry* verb = nullptr;  // nullptr: print `text` and exit with `exit_code`
  std::string program;  // the name that messages of the verb begin with: "capture check"
  std::vector<std::string> arguments;  // of the verb
  std::string text;                    // help, version (stdout) or the error (stderr)
  int exit_code = 0;
};

// Finds the verb of a command line. `arguments[0]` is the name by which the program was called: as
// "jobscope" it requires a verb first; under any other name it captures unless the first argument
// is another verb. Pure.
VerbResult ParseVerb(const std::vector<std::string>& arguments);

}  // namespace jobscope

#endif  // CLIENT_CLI_VERBS_H_
