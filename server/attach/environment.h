// SPDX-License-Identifier: Apache-2.0
//
// What the environment asks of the attach library, and what it tells about the processes above this
// one. C library only; nothing here allocates.
#ifndef SERVER_ATTACH_ENVIRONMENT_H_
#define SERVER_ATTACH_ENVIRONMENT_H_

#include <stddef.h>
#include <sys/types.h>

namespace jobscope::attach {

// getenv, or a test's.
using GetVariable = char* (*)(const char* name);

// JOBSCOPE_DISABLE: anything but "", 0, false, no, off. (The server refuses words that are neither
// yes nor no; a switch that is meant to keep us out does so however it is spelled.)
bool Disabled(GetVariable get);

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };
// JOBSCOPE_LOG_LEVEL, as common/log/log.h reads it.
LogLevel ReadLogLevel(GetVariable get);

// JOBSCOPE_ATTACH_DELAY_MS, 0 to 10,000; leaves `delay_ms` alone where it is not set. False: it is
// no such number.
bool ReadDelayMs(GetVariable get, int* delay_ms);

// The local rank, as common/process/identity.h finds it; -1: none.
int LocalRank(GetVariable get);

// Who this process is among the workers, as the launcher said it: "RANK=3", "SLURM_LOCALID=0"; ""
// where nobody said. Two processes of the same role are one worker and its helpers.
void ReadRole(GetVariable get, char* role, size_t size);

// The variable JOBSCOPE_ATTACHED, "4711 RANK=3", is set in a process that attaches, so that those
// which it starts know of it.
inline constexpr char kMarkVariable[] = "JOBSCOPE_ATTACHED";
void WriteMark(pid_t pid, const char* role, char* mark, size_t size);

enum class Above {
  kNobody,    // no process above this one attached, or it has gone, or it was this one (exec)
  kOther,     // one did, of another role: a launcher that is not known as one, an agent
  kSameRole,  // one did, and it is this worker: we are its data loader, its subprocess, ...
  kNoRole,    // one did, and neither of us has a role
};
// `self`: this process.
Above ReadMark(const char* mark, pid_t self, const char* role);

}  // namespace jobscope::attach

#endif  // SERVER_ATTACH_ENVIRONMENT_H_
