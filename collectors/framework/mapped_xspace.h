// SPDX-License-Identifier: Apache-2.0
#ifndef COLLECTORS_FRAMEWORK_MAPPED_XSPACE_H_
#define COLLECTORS_FRAMEWORK_MAPPED_XSPACE_H_

#include <cstddef>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace jobscope::framework {

// Maps a serialized XSpace where Python wrote it, without a second copy. The destructor frees its
// memory. The file must keep its size until then. Movable.
class MappedXSpace {
 public:
  // Maps the first `bytes` bytes of the memfd `fd`, which the caller keeps open.
  // RESOURCE_EXHAUSTED: it cannot be mapped. INTERNAL: the file is shorter.
  static absl::StatusOr<MappedXSpace> Make(int fd, size_t bytes);

  MappedXSpace() = default;  // empty
  MappedXSpace(MappedXSpace&& other) noexcept { *this = std::move(other); }
  MappedXSpace& operator=(MappedXSpace&& other) noexcept;
  ~MappedXSpace();

  std::string_view bytes() const { return {static_cast<const char*>(data_), bytes_}; }

 private:
  int fd_ = -1;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace jobscope::framework

#endif  // COLLECTORS_FRAMEWORK_MAPPED_XSPACE_H_
