// SPDX-License-Identifier: Apache-2.0
//
// Lets one process at a time replace a file of a directory.
#ifndef COMMON_FILES_DIRECTORY_LOCK_H_
#define COMMON_FILES_DIRECTORY_LOCK_H_

#include <chrono>
#include <string>

namespace jobscope {

// Holds the flock() of a directory while it exists. Leaves nothing behind, also if the process is
// killed. A child forked meanwhile inherits the lock until it is released here: hold a ForkPause.
class DirectoryLock {
 public:
  // Locks the directory that contains `path`. Blocks for at most `timeout`.
  DirectoryLock(const std::string& path, std::chrono::milliseconds timeout);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // Another process has held the lock for all of that time. False without a lock, too: this process
  // may not read the directory, or its file system has no locks.
  bool is_taken() const { return is_taken_; }

 private:
  int fd_ = -1;
  bool is_taken_ = false;
};

}  // namespace jobscope

#endif  // COMMON_FILES_DIRECTORY_LOCK_H_
