// SPDX-License-Identifier: Apache-2.0
//
// Names for temporary files that belong to one writer.
#ifndef COMMON_FILES_RANDOM_NAME_H_
#define COMMON_FILES_RANDOM_NAME_H_

#include <string>

namespace jobscope {

// Returns 16 hexadecimal digits that no other process gets or guesses. Thread-safe; does not block:
// before the kernel has gathered randomness, shortly after the boot, it returns the time instead.
std::string RandomName();

}  // namespace jobscope

#endif  // COMMON_FILES_RANDOM_NAME_H_
