// SPDX-License-Identifier: Apache-2.0
//
// Where one worker's items wait for the end of its capture: on disk, since they may be more than
// memory holds.
#ifndef CLIENT_RUN_SPOOL_H_
#define CLIENT_RUN_SPOOL_H_

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

// An unlinked temporary file: nothing stays behind, whatever ends this process. It holds the fields
// of one long jobscope.v1.Items, as they came. Not thread-safe; everything blocks for the disk.
//
// In memory up to 1 MiB, of all spools 64 MiB; then on disk, where a capture takes its size twice
// until the trace is written: here and in its parts.
class Spool {
 public:
  // What does not stay in memory lies in `directory`, where the trace will be: the same disk,
  // checked for room before.
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
  Spool(int fd, std::string directory);
  void Grow(uint64_t bytes);
  absl::Status MoveToDisk();
  // The bytes written.
  absl::StatusOr<uint64_t> Write(std::vector<iovec>* pieces);

  int fd_;
  const std::string directory_;
  const std::string name_;  // for texts
  bool in_memory_ = true;
  uint64_t memory_bytes_ = 0;  // that were written there
  uint64_t bytes_ = 0;         // of whole fields
  uint64_t part_bytes_ = 0;    // behind them
  absl::Status status_;
};

// A spool as the assembler wants it: views into mappings of the file, which stay as long as this
// lives. Not thread-safe.
class SpoolItems {
 public:
  // `spool` must outlive the calls of Advance.
  explicit SpoolItems(const Spool* spool) : spool_(spool) {}
  // Of all that is in it.
  static absl::StatusOr<std::unique_ptr<SpoolItems>> Read(const Spool& spool);
  ~SpoolItems();
  SpoolItems(const SpoolItems&) = delete;
  SpoolItems& operator=(const SpoolItems&) = delete;

  // Finds the items that were added since the last call, and hands each over. Takes 32 bytes per
  // item; of the file nothing stays in memory.
  absl::Status Advance(absl::FunctionRef<void(const xspace::ItemView& item)> take);

  // Numbered from 1 without gaps, whatever their numbers were.
  const std::vector<xspace::ItemView>& items() const { return items_; }

  // Gives back the memory of what was read in these chunks (xspace::ReadMeter); it stays in the
  // system's cache, and is mapped again where it is needed.
  void LetGo(const std::vector<uintptr_t>& chunks) const;

 private:
  // A piece of the file. What is behind the file's end becomes readable when it is written.
  struct Window {
    int fd = -1;          // what it is of
    uint64_t offset = 0;  // in the file
    char* data = nullptr;
    size_t size = 0;
  };
  // The file from there to its end, in one window.
  absl::StatusOr<std::string_view> Map(uint64_t offset);

  const Spool* const spool_;
  uint64_t read_bytes_ = 0;
  std::vector<Window> windows_;
  std::vector<xspace::ItemView> items_;
};

}  // namespace jobscope

#endif  // CLIENT_RUN_SPOOL_H_
