// SPDX-License-Identifier: Apache-2.0
//
// Which libraries this process has loaded.
#ifndef COMMON_PROCESS_LOADED_LIBRARIES_H_
#define COMMON_PROCESS_LOADED_LIBRARIES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace jobscope {

// All functions are thread-safe and take microseconds. They do not wait for a library that is being
// loaded, as dlopen and dlsym do for as long as its constructors run (an import may take seconds).
// They wait for a fork that is under way (WhileNobodyForks), for 1 s at most: a child that is
// forked while the loader's list is being read finds its lock held for ever.

// The path of a loaded library whose file name begins with `prefix`. Empty: there is none.
std::string FindLoadedLibrary(std::string_view prefix);

// Paths of all of them, in the order of loading.
std::vector<std::string> LoadedLibraries();

// How many have been loaded since the process began. As long as it stays the same, what was not
// found in any library is not there.
uint64_t LibraryLoads();

// The part of a path behind its last slash.
std::string_view FileNameOf(std::string_view path);

}  // namespace jobscope

#endif  // COMMON_PROCESS_LOADED_LIBRARIES_H_
