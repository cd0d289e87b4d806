// SPDX-License-Identifier: Apache-2.0
//
// Maps a file for reading, because a trace may be larger than memory.
#ifndef ANALYSIS_TRACE_MAPPED_FILE_H_
#define ANALYSIS_TRACE_MAPPED_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace jobscope::analysis {

// Maps a file; unmaps it in the destructor. The file must not be truncated meanwhile.
class MappedFile {
 public:
  // Opens and maps a file; an empty file gives no bytes. Returns the system's errors;
  // INVALID_ARGUMENT if it is not a regular file.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::string_view bytes() const { return {data_, data_ == nullptr ? 0 : size_}; }

  // Frees the memory of the whole pages in [begin, end) of bytes(). They are read from the file
  // again when they are used again.
  void Release(size_t begin, size_t end) const;

 private:
  MappedFile(const char* data, size_t size) : data_(data), size_(size) {}
  const char* data_;
  size_t size_;
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_MAPPED_FILE_H_
