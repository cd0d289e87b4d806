// SPDX-License-Identifier: Apache-2.0
//
// Writes a file that nobody sees before it is whole: under a temporary name, synced, then renamed.
#ifndef COMMON_FILES_FILE_SINK_H_
#define COMMON_FILES_FILE_SINK_H_

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/xspace/assemble/assembler.h"

namespace jobscope {

// Traces tell what a job does: they are their owner's.
inline constexpr mode_t kPrivateFileMode = 0600;

// Not thread-safe. Memory: one buffer of 256 KiB. Blocks for the disk. Unless Publish has
// succeeded, the destructor removes the temporary file, so that a failed write leaves nothing
// behind.
class FileSink : public xspace::ByteSink {
 public:
  // Creates "<directory>/.<file_name>.partial", which no reader of runs takes for a trace
  // ("*.xplane.pb").
  // The file has `mode`, whatever the umask.
  static absl::StatusOr<std::unique_ptr<FileSink>> Create(const std::string& directory,
                                                          const std::string& file_name,
                                                          mode_t mode = kPrivateFileMode);
  ~FileSink() override;
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  // Stable bytes of 4 KiB and more are kept by reference until the next Flush, all others are
  // copied. The first error (disk full, file size limit) is returned from then on.
  absl::Status Write(std::string_view bytes, bool stable) override;

  // Hands everything to the system; after it no bytes are held by reference.
  absl::Status Flush();

  enum class Name {
    kLasts,  // the directory is synced: the new name stays after a crash
    kLater,  // not by this: for one of many files, of which the last one's Publish does it for all
    kMayVanish,  // nothing is synced: after a power cut the file may be missing, or empty
  };
  // Flush, fsync, rename to "<directory>/<file_name>", fsync of the directory. At most once.
  absl::Status Publish(Name name = Name::kLasts);

  uint64_t bytes() const { return bytes_; }          // taken so far
  const std::string& path() const { return path_; }  // the final one
  const std::string& temporary_path() const { return temporary_path_; }

 private:
  FileSink(int fd, std::string directory, std::string path, std::string temporary_path);
  absl::Status WriteAll();
  absl::Status Failed(absl::string_view verb, int error);

  const int fd_;
  const std::string directory_;
  const std::string path_;
  const std::string temporary_path_;
  bool published_ = false;
  uint64_t bytes_ = 0;
  uint64_t begun_bytes_ = 0;  // that the system was told to bring to disk
  absl::Status status_;
  // Fixed size: pieces point into it. Not filled: most traces of a large run take a part of it.
  const std::unique_ptr<char[]> buffer_;
  size_t buffered_ = 0;
  std::vector<iovec> pieces_;  // what Flush is to write, in order
};

// fsync of a directory: what was renamed or created in it stays after a crash.
absl::Status SyncDirectory(const std::string& directory);

}  // namespace jobscope

#endif  // COMMON_FILES_FILE_SINK_H_
