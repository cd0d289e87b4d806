// SPDX-License-Identifier: Apache-2.0
//
// Lists the libraries that this process has loaded.
#ifndef COMMON_PROCESS_LOADED_LIBRARIES_H_
#define COMMON_PROCESS_LOADED_LIBRARIES_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace jobscope {

// All functions are thread-safe and take microseconds. They do not wait for a library that is being
// loaded, whereas dlopen and dlsym wait while its constructors run (an import may take seconds).
// Most wait for a fork in progress (WhileNobodyForks) for at most 1 s: a child forked while the
// loader's list is being read would find its lock held for ever.

// Returns the path of a loaded library whose file name begins with `prefix`. Empty: there is none.
std::string FindLoadedLibrary(std::string_view prefix);

// Returns the paths of all loaded libraries, in the order of loading.
std::vector<std::string> LoadedLibraries();

// Returns how many libraries have been loaded since the process began. While it is unchanged, a
// search that found nothing needs no repetition.
uint64_t LibraryLoads();

// Tells whether a library is loaded whose file name begins with `prefix`.
class LibraryPresence {
 public:
  explicit constexpr LibraryPresence(std::string_view prefix) : prefix_(prefix) {}

  bool IsLoaded();
  // Never waits: during a fork it returns the last result of either function, at first false.
  bool IsKnownLoaded();

 private:
  const std::string_view prefix_;
  std::atomic<bool> loaded_{false};
};

// Returns the part of a path after its last slash.
std::string_view FileNameOf(std::string_view path);

}  // namespace jobscope

#endif  // COMMON_PROCESS_LOADED_LIBRARIES_H_
