// SPDX-License-Identifier: Apache-2.0
#include "server/listen/held_descriptors.h"

#include <algorithm>

namespace jobscope {

void HeldDescriptors::Add(int fd) {
  struct stat info = {};
  if (fstat(fd, &info) == 0) files_.push_back({fd, info.st_dev, info.st_ino});
}

bool HeldDescriptors::AllOpen() const {
  return std::all_of(files_.begin(), files_.end(), [](const File& file) {
    struct stat info = {};
    return fstat(file.fd, &info) == 0 && info.st_dev == file.device && info.st_ino == file.inode;
  });
}

}  // namespace jobscope
