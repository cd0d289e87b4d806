// SPDX-License-Identifier: Apache-2.0
//
// Simulates a file system that hangs. Defines mkdir, unlink and rename of the program, also for the
// code under test: include it in one source.
#ifndef TESTS_HANGING_FILES_H_
#define TESTS_HANGING_FILES_H_

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace jobscope {

// Hangs in calls for names with one of these ends.
struct HangingFiles {
  // Waits while `path` has such an end.
  void Pass(std::string_view path) {
    std::unique_lock<std::mutex> lock(mutex);
    const auto hangs = [&] {
      return std::any_of(ends.begin(), ends.end(), [&](const std::string& end) {
        return path.size() >= end.size() && path.substr(path.size() - end.size()) == end;
      });
    };
    if (!hangs()) return;
    ++waiting;
    changed.notify_all();
    changed.wait(lock, [&] { return !hangs(); });
    --waiting;
  }
  void Hang(std::vector<std::string> at) {
    const std::lock_guard<std::mutex> lock(mutex);
    ends = std::move(at);
    changed.notify_all();
  }
  // Returns whether `calls` calls hang, within 60 s.
  bool Await(int calls) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60), [&] { return waiting >= calls; });
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> ends;
  int waiting = 0;
};
// Never destroyed: calls may hang while the process exits.
inline HangingFiles& g_files = *new HangingFiles;

}  // namespace jobscope

// Visible to shared libraries.
#define JOBSCOPE_INTERPOSED extern "C" __attribute__((visibility("default")))
JOBSCOPE_INTERPOSED int mkdir(const char* path, mode_t mode) noexcept {
  jobscope::g_files.Pass(path);
  return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
JOBSCOPE_INTERPOSED int unlink(const char* name) noexcept {
  jobscope::g_files.Pass(name);
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, name, 0));
}
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): "new" is a keyword
JOBSCOPE_INTERPOSED int rename(const char* from, const char* to) noexcept {
  jobscope::g_files.Pass(to);
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
#undef JOBSCOPE_INTERPOSED

#endif  // TESTS_HANGING_FILES_H_
