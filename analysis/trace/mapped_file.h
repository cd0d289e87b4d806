// SPDX-License-Identifier: Apache-2.0
//
// Maps a file for reading, because a trace may be larger than memory.
#ifndef ANALYSIS_TRACE_MAPPED_FILE_H_
#define ANALYSIS_TRACE_MAPPED_FILE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace jobscope::analysis {

struct FileMapping;

// Maps a file; unmaps it in the destructor. Used only by the thread that opened it.
//
// Another program may truncate the file, or its file system may fail, while it is mapped: the
// kernel then raises SIGBUS. The first Open installs a handler of that signal for the process; all
// that cannot be read has the value 0 from then on, and status() is an error. Faults elsewhere are
// left to the handler that was installed before.
class MappedFile {
 public:
  // Opens and maps a file; an empty file gives no bytes. Returns the system's errors;
  // INVALID_ARGUMENT if it is not a regular file.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::string_view bytes() const;
  // Returns DATA_LOSS if bytes that were used so far could not be read. Use nothing that was made
  // of bytes() before this is known.
  absl::Status status() const;

  // Frees the memory of the whole pages in [begin, end) of bytes(). They are read from the file
  // again when they are used again.
  void Release(size_t begin, size_t end) const;

 private:
  explicit MappedFile(std::unique_ptr<FileMapping> mapping);
  std::unique_ptr<FileMapping> mapping_;  // nullptr: no bytes
};

// Frees the memory of a mapped file behind its reader, which makes one pass or several over its
// parts, each from front to back.
class PassedPages {
 public:
  // `file` must outlive it. nullptr: what is read is not mapped; does nothing.
  explicit PassedPages(const MappedFile* file = nullptr)
      : file_(file), released_(file == nullptr ? nullptr : file->bytes().data()) {}

  // A pass begins at `at`, which may have been passed before.
  void BeginAt(const char* at);
  // Declares the bytes before `at` as no longer needed in this pass. Called for each event.
  void Pass(const char* at) {
    if (file_ != nullptr && at - released_ >= kReleasedBytes) Release(at);
  }

 private:
  // Freed at once: fewer would cost more calls, more would take a part of the budget for memory.
  static constexpr ptrdiff_t kReleasedBytes = ptrdiff_t{4} << 20;

  void Release(const char* at);

  const MappedFile* file_;
  const char* released_;  // what lies before it
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_MAPPED_FILE_H_
