// SPDX-License-Identifier: Apache-2.0
//
// Reads memory of this process that another thread may free meanwhile: freed memory is an error,
// not a crash.
#ifndef COMMON_PROCESS_OWN_MEMORY_H_
#define COMMON_PROCESS_OWN_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace jobscope {

// Copies memory of this process without faulting on unmapped addresses, by process_vm_readv, or by
// /proc/self/mem where seccomp forbids that. Not thread-safe.
class OwnMemory {
 public:
  OwnMemory();
  ~OwnMemory();
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  // Copies `size` bytes. False: the address is not mapped, or neither method is allowed.
  bool Read(uint64_t address, void* to, size_t size);
  // Copies `size` bytes from each address to consecutive places in `to`.
  bool ReadEach(const std::vector<uint64_t>& addresses, size_t size, char* to);
  template <typename T>
  bool Read(uint64_t address, T* to) {
    return Read(address, to, sizeof(T));
  }

 private:
  int file_ = -1;  // /proc/self/mem, once process_vm_readv has been refused
};

}  // namespace jobscope

#endif  // COMMON_PROCESS_OWN_MEMORY_H_
