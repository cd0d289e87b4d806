// SPDX-License-Identifier: Apache-2.0
//
// Keeps one worker's items until the end of its capture: on disk, because they may exceed memory.
#ifndef CLIENT_NATIVE_SPOOL_SPOOL_H_
#define CLIENT_NATIVE_SPOOL_SPOOL_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/xspace/segment/store.h"

namespace jobscope {

// Uses an unlinked temporary file: nothing remains, however this process ends. It contains the
// fields of one long jobscope.v1.Items, as received. Not thread-safe; all functions block on the
// disk.
//
// Stays in memory up to 1 MiB (all spools: 64 MiB), then on disk, where a capture takes twice its
// size until the trace is written: the spool and its parts.
class Spool {
 public:
  // Creates a spool. Data beyond memory goes to `directory`, where the trace will be: the same
  // disk, checked for space before.
  static absl::StatusOr<std::unique_ptr<Spool>> Create(const std::string& directory);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // Appends whole fields. After an error (disk full, file size limit: the text names it) nothing
  // more can be added; earlier data stays valid.
  absl::Status Append(const std::vector<std::string_view>& fields);

  // Appends to a field that is not complete yet. Append discards such a part.
  absl::Status AppendPart(std::string_view bytes);
  // Marks the field as complete.
  void EndPart();

  uint64_t bytes() const { return bytes_; }  // of whole fields
  // Likewise, of all spools of this process.
  static uint64_t AllBytes();

  // Returns whether the disk lacks space for what all spools of this process will still write
  // there: each becomes a trace of about its size, and this one grows. False if the system does not
  // say.
  bool DiskIsLow() const;

 private:
  friend class SpoolItems;
  Spool(int fd, std::string directory);
  void Grow(uint64_t bytes);
  absl::Status MoveToDisk();
  // Returns the number of bytes written.
  absl::StatusOr<uint64_t> Write(std::vector<iovec>* pieces);

  int fd_;
  const std::string directory_;
  const std::string name_;  // for error texts
  bool in_memory_ = true;
  uint64_t memory_bytes_ = 0;  // of it in memory
  uint64_t bytes_ = 0;         // of whole fields
  uint64_t part_bytes_ = 0;    // after them
  absl::Status status_;
};

// Presents a spool to the assembler: views into mappings of the file, valid for the lifetime of
// this object. Not thread-safe.
class SpoolItems {
 public:
  // `spool` must outlive the calls of Advance.
  explicit SpoolItems(const Spool* spool) : spool_(spool) {}
  // Reads all of its items.
  static absl::StatusOr<std::unique_ptr<SpoolItems>> Read(const Spool& spool);
  ~SpoolItems();
  SpoolItems(const SpoolItems&) = delete;
  SpoolItems& operator=(const SpoolItems&) = delete;

  // Finds the items added since the last call, and passes each to `take`. Takes 32 bytes per item;
  // no file contents stay in memory.
  absl::Status Advance(absl::FunctionRef<void(const xspace::ItemView& item)> take);

  // Numbered from 1 without gaps, whatever their original numbers.
  const std::vector<xspace::ItemView>& items() const { return items_; }

  // Frees the memory of data read in these chunks (xspace::ReadMeter); the data stays in the page
  // cache, and is mapped again when needed.
  void ReleasePages(const std::vector<uintptr_t>& chunks) const;

 private:
  // A mapping of part of the file. Data beyond the file's end becomes readable once it is written.
  struct Window {
    int fd = -1;          // the mapped file
    uint64_t offset = 0;  // in the file
    char* data = nullptr;
    size_t size = 0;
  };
  // Returns the file from `offset` to its end, in one window.
  absl::StatusOr<std::string_view> Map(uint64_t offset);

  const Spool* const spool_;
  uint64_t read_bytes_ = 0;
  std::vector<Window> windows_;
  std::vector<xspace::ItemView> items_;
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_SPOOL_SPOOL_H_
