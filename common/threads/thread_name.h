// SPDX-License-Identifier: Apache-2.0
//
// Reads the OS names of the process's threads.
#ifndef COMMON_THREADS_THREAD_NAME_H_
#define COMMON_THREADS_THREAD_NAME_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace jobscope {

// Returns the name of a thread: at most 15 bytes, which the kernel may have cut in the middle of a
// UTF-8 character. Empty: the thread has ended, or there is no /proc. Takes microseconds.
std::string ThreadName(int64_t tid);

// Returns the name of the thread's XLine: "trainer/4711", or "thread/4711" if it has no name.
std::string ThreadLineName(int64_t tid);

// Returns whether a thread of this name was started by this library.
bool IsOwnThreadName(std::string_view name);

}  // namespace jobscope

#endif  // COMMON_THREADS_THREAD_NAME_H_
