// SPDX-License-Identifier: Apache-2.0
//
// Identifies a pid namespace, and checks whether one of its processes has ended.
#ifndef COMMON_PROCESS_PID_SPACE_H_
#define COMMON_PROCESS_PID_SPACE_H_

#include <cstdint>
#include <string>

namespace jobscope {

// Returns an id that is equal for two processes in which a pid means the same process: same boot of
// the same kernel, same pid namespace. Empty where /proc does not provide it. Read once per
// process.
const std::string& PidSpace();

// Returns true if no process with this id is left, or only its exit status. False: it exists, or
// its state is unknown. Makes up to three system calls; never blocks.
bool HasEnded(int64_t pid);

}  // namespace jobscope

#endif  // COMMON_PROCESS_PID_SPACE_H_
