// SPDX-License-Identifier: Apache-2.0
//
// Where one worker's items wait for the end of its capture: on disk, since they may be more than
// memory holds.
#ifndef CLIENT_SPOOL_H_
#define CLIENT_SPOOL_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/xspace/store.h"

namespace jobscope {

// An unlinked temporary file: nothing stays behind, whatever ends this process. It holds the fields
// of one long jobscope.v1.Items, as they came. Not thread-safe; everything blocks for the disk.
//
// Until the trace is written a capture takes its size twice on this disk: here and in its parts.
class Spool {
 public:
  // In `directory`, where the trace will be: the same disk, checked for room before.
  static absl::StatusOr<std::unique_ptr<Spool>> Create(const std::string& directory);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // Adds whole fields. After an error (disk full, file size limit: the text names it) nothing more
  // can be added; what was there before is still good.
  absl::Status Append(const std::vector<std::string_view>& fields);

  // Adds to a field that is not whole yet. Append drops what was added so.
  absl::Status AppendPart(std::string_view bytes);
  // The field is whole.
  void EndPart();

  uint64_t bytes() const { return bytes_; }  // of whole fields

  // True if the disk has no room for what all spools of this process will still take there: each
  // becomes a trace of about its size, and this one grows. False if the system does not tell.
  bool DiskIsLow() const;

 private:
  friend class SpoolItems;
  Spool(int fd, std::string name);
  void Grow(uint64_t bytes);
  // The bytes written.
  absl::StatusOr<uint64_t> Write(std::vector<iovec>* pieces);

  const int fd_;
  const std::string name_;   // for texts
  uint64_t bytes_ = 0;       // of whole fields
  uint64_t part_bytes_ = 0;  // behind them
  absl::Status status_;
};

// A spool as the assembler wants it. Views into a mapping of the file.
class SpoolItems {
 public:
  // Takes 32 bytes per item. The spool must not grow while this lives.
  static absl::StatusOr<std::unique_ptr<SpoolItems>> Read(const Spool& spool);
  ~SpoolItems();
  SpoolItems(const SpoolItems&) = delete;
  SpoolItems& operator=(const SpoolItems&) = delete;

  // Numbered from 1 without gaps, whatever their numbers were.
  const std::vector<xspace::ItemView>& items() const { return items_; }

  // Gives back the memory of what was read in these chunks (xspace::ReadMeter); it stays in the
  // system's cache, and is mapped again where it is needed.
  void LetGo(const std::vector<uintptr_t>& chunks) const;

 private:
  SpoolItems(char* data, size_t size) : data_(data), size_(size) {}

  char* const data_;
  const size_t size_;
  std::vector<xspace::ItemView> items_;
};

}  // namespace jobscope

#endif  // CLIENT_SPOOL_H_
