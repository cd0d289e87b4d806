// SPDX-License-Identifier: Apache-2.0
//
// Whose processes a process id counts, and whether one of them is gone.
#ifndef COMMON_PROCESS_PID_SPACE_H_
#define COMMON_PROCESS_PID_SPACE_H_

#include <cstdint>
#include <string>

namespace jobscope {

// Two processes with the same one mean the same process by the same id: same boot of the same
// kernel, same pid namespace. Empty where /proc does not tell. Read once per process.
const std::string& PidSpace();

// True: no process of this id is left, or only its exit status. False: there is one, or nobody
// knows. A system call or three, never blocks.
bool HasEnded(int64_t pid);

}  // namespace jobscope

#endif  // COMMON_PROCESS_PID_SPACE_H_
