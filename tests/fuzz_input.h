// SPDX-License-Identifier: Apache-2.0
//
// Cuts a fuzzer's bytes into values.
#ifndef TESTS_FUZZ_INPUT_H_
#define TESTS_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace jobscope {

// Ends the program where a fuzzer's promise does not hold.
inline void Require(bool condition) {
  if (!condition) std::abort();
}

// Hands out the bytes in order, and zeros after their end.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }

  template <typename Number>
  Number Take() {
    Number number{};
    const size_t bytes = std::min(sizeof(number), size_);
    std::memcpy(&number, data_, bytes);
    Skip(bytes);
    return number;
  }
  bool TakeBool() { return (Take<uint8_t>() & 1) != 0; }

  // At most `most` bytes.
  std::string TakeBytes(size_t most) {
    const size_t bytes = std::min(most, size_);
    const std::string taken(reinterpret_cast<const char*>(data_), bytes);
    Skip(bytes);
    return taken;
  }
  // As many bytes as the next one or two say.
  std::string TakeBytes8() { return TakeBytes(Take<uint8_t>()); }
  std::string TakeBytes16() { return TakeBytes(Take<uint16_t>()); }

 private:
  void Skip(size_t bytes) {
    data_ += bytes;
    size_ -= bytes;
  }

  const uint8_t* data_;
  size_t size_;
};

}  // namespace jobscope

#endif  // TESTS_FUZZ_INPUT_H_
