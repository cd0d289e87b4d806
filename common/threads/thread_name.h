// SPDX-License-Identifier: Apache-2.0
//
// Names of the process's threads, as the OS has them.
#ifndef COMMON_THREADS_THREAD_NAME_H_
#define COMMON_THREADS_THREAD_NAME_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace jobscope {

// At most 15 bytes, which the kernel may have cut in the middle of a UTF-8 character. Empty: the
// thread has ended, or there is no /proc. Microseconds.
std::string ThreadName(int64_t tid);

// What its line in a trace is called: "trainer/4711", "thread/4711" where it has no name.
std::string ThreadLineName(int64_t tid);

// Whether a thread of this name is one that this library started.
bool IsOwnThreadName(std::string_view name);

}  // namespace jobscope

#endif  // COMMON_THREADS_THREAD_NAME_H_
