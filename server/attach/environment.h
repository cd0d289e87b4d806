// SPDX-License-Identifier: Apache-2.0
//
// Reads what the environment asks of the attach library, and what it says about this process's
// ancestors. Uses only the C library; allocates nothing.
#ifndef SERVER_ATTACH_ENVIRONMENT_H_
#define SERVER_ATTACH_ENVIRONMENT_H_

#include <stddef.h>
#include <sys/types.h>

namespace jobscope::attach {

// getenv, or a test's replacement.
using GetVariable = char* (*)(const char* name);

// Returns whether JOBSCOPE_DISABLE is set to anything but "", 0, false, no, off. (The server
// rejects words that mean neither yes nor no; here a switch that is meant to disable us does so in
// any spelling.)
bool Disabled(GetVariable get);

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };
// Reads JOBSCOPE_LOG_LEVEL like common/log/log.h.
LogLevel ReadLogLevel(GetVariable get);

// Reads JOBSCOPE_ATTACH_DELAY_MS, 0 to 10,000 ms; keeps `delay_ms` if it is not set. Returns false
// if it is no such number.
bool ReadDelayMs(GetVariable get, int* delay_ms);

// Returns the local rank like common/process/identity.h; -1: none.
int LocalRank(GetVariable get);

// Writes the role that the launcher gave to this process: "RANK=3", "SLURM_LOCALID=0"; "" if none.
// Two processes of the same role are one worker and its helper.
void ReadRole(GetVariable get, char* role, size_t size);

// The variable JOBSCOPE_ATTACHED, "4711 RANK=3", is set in a process that attaches, so that its
// descendants know of it.
inline constexpr char kMarkVariable[] = "JOBSCOPE_ATTACHED";
void WriteMark(pid_t pid, const char* role, char* mark, size_t size);
// Returns whether the process `pid` has set `mark` (null: there is none).
bool IsMarkOf(const char* mark, pid_t pid);

enum class Above {
  kNobody,    // no ancestor attached, or it has ended, or it was this process (exec)
  kOther,     // one did, with another role: an unknown launcher, an agent
  kSameRole,  // one did, and it is this worker: we are its data loader, its subprocess, ...
  kNoRole,    // one did, and neither of us has a role
};
// Reads the mark that an ancestor set. `self`: this process.
Above ReadMark(const char* mark, pid_t self, const char* role);

}  // namespace jobscope::attach

#endif  // SERVER_ATTACH_ENVIRONMENT_H_
