// SPDX-License-Identifier: Apache-2.0
//
// Reads memory of this process that another thread may give back meanwhile: what is gone is an
// error, and no crash.
#ifndef COMMON_PROCESS_OWN_MEMORY_H_
#define COMMON_PROCESS_OWN_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace jobscope {

// Not thread-safe. By process_vm_readv; where that is not allowed (seccomp), by /proc/self/mem.
class OwnMemory {
 public:
  OwnMemory();
  ~OwnMemory();
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  // False: it is not there, or neither way is allowed.
  bool Read(uint64_t address, void* to, size_t size);
  // `size` bytes from each address, one after the other.
  bool ReadEach(const std::vector<uint64_t>& addresses, size_t size, char* to);
  template <typename T>
  bool Read(uint64_t address, T* to) {
    return Read(address, to, sizeof(T));
  }

 private:
  int file_ = -1;  // of /proc/self/mem, once the other way has been refused
};

}  // namespace jobscope

#endif  // COMMON_PROCESS_OWN_MEMORY_H_
