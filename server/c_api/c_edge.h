// SPDX-License-Identifier: Apache-2.0
//
// Converts values that cross the C ABI: numbers, terminated strings, structs that may be of another
// version.
#ifndef SERVER_C_API_C_EDGE_H_
#define SERVER_C_API_C_EDGE_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "jobscope/jobscope_c.h"

namespace jobscope {

// Copies as much of `text` as fits, always terminated. `buffer` may be null.
inline void CopyOut(const std::string& text, char* buffer, size_t size) {
  if (buffer == nullptr || size == 0) return;
  const size_t count = std::min(text.size(), size - 1);
  std::memcpy(buffer, text.data(), count);
  buffer[count] = '\0';
}

// Copies the caller's struct as far as its version reaches and zeroes the rest; all zero for null.
// Returns false if its size does not even include the fields up to `first_bytes`.
template <typename Struct>
bool CopyIn(const Struct* given, size_t first_bytes, Struct* copy) {
  std::memset(copy, 0, sizeof(*copy));
  if (given == nullptr) return true;
  if (given->size < first_bytes) return false;
  std::memcpy(copy, given, std::min(given->size, sizeof(*copy)));
  return true;
}

// Returns the code that `function` returns. No exception leaves it: a foreign caller's frames may
// not support unwinding. The only ones that our code can raise are those of exhausted memory.
template <typename Function>
int WithoutException(char* error, size_t error_size, Function&& function) {
  try {
    return function();
  } catch (...) {
    CopyOut("out of memory", error, error_size);
    return JOBSCOPE_E_INTERNAL;
  }
}

}  // namespace jobscope

#endif  // SERVER_C_API_C_EDGE_H_
