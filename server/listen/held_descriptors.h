// SPDX-License-Identifier: Apache-2.0
//
// Detects that the program has closed descriptors of the server.
#ifndef SERVER_LISTEN_HELD_DESCRIPTORS_H_
#define SERVER_LISTEN_HELD_DESCRIPTORS_H_

#include <sys/stat.h>

#include <vector>

namespace jobscope {

// Remembers which files descriptors are. A program may close all of its descriptors (closefrom),
// and open its own under the same numbers: those must be neither used nor closed.
class HeldDescriptors {
 public:
  void Add(int fd);
  // Returns whether each of them is open and still the same file. Event descriptors share one
  // inode: add a socket, too. Thread-safe after the last Add.
  bool AllOpen() const;

 private:
  struct File {
    int fd;
    dev_t device;
    ino_t inode;
  };
  std::vector<File> files_;
};

}  // namespace jobscope

#endif  // SERVER_LISTEN_HELD_DESCRIPTORS_H_
