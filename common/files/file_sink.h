// SPDX-License-Identifier: Apache-2.0
//
// Writes a file that becomes visible only when it is complete: under a temporary name, synced, then
// renamed.
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
#include "common/files/byte_sink.h"

namespace jobscope {

// Traces reveal what a job does, so only their owner may read them.
inline constexpr mode_t kPrivateFileMode = 0600;

// Writes a file under a temporary name and publishes it by a rename. The destructor removes the
// temporary file unless Publish succeeded, so a failed write leaves nothing behind. Not
// thread-safe. Memory: one buffer of 256 KiB. Blocks for the disk.
class FileSink : public xspace::ByteSink {
 public:
  // Creates "<directory>/.<file_name>.partial", a name that no reader of runs takes for a trace
  // ("*.xplane.pb"). The file gets `mode`, regardless of the umask.
  static absl::StatusOr<std::unique_ptr<FileSink>> Create(const std::string& directory,
                                                          const std::string& file_name,
                                                          mode_t mode = kPrivateFileMode);
  // As Create, for a file that several processes may write at once: the last one to publish wins.
  // The temporary file has a name of its own, ".<file_name>.<16 digits>.partial". If the process is
  // killed, it remains.
  static absl::StatusOr<std::unique_ptr<FileSink>> CreateShared(const std::string& directory,
                                                                const std::string& file_name,
                                                                mode_t mode = kPrivateFileMode);
  ~FileSink() override;
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  // Keeps stable bytes of 4 KiB and more by reference until the next Flush; copies all others.
  // After the first error (disk full, file size limit), every call returns it.
  absl::Status Write(std::string_view bytes, bool stable) override;

  // Writes everything to the file; afterwards no bytes are held by reference.
  absl::Status Flush();

  enum class Name {
    kLasts,      // syncs the directory: the new name survives a crash
    kLater,      // does not sync: the Publish of a later file in the directory does it for all
    kMayVanish,  // syncs nothing: after a power cut the file may be missing or empty
  };
  // Flushes, syncs and closes the file, renames it to "<directory>/<file_name>", syncs the
  // directory. At most once.
  absl::Status Publish(Name name = Name::kLasts);

  uint64_t bytes() const { return bytes_; }          // accepted so far
  const std::string& path() const { return path_; }  // the final one
  const std::string& temporary_path() const { return temporary_path_; }

 private:
  static absl::StatusOr<std::unique_ptr<FileSink>> CreateAs(const std::string& temporary_name,
                                                            const std::string& directory,
                                                            const std::string& file_name,
                                                            mode_t mode);
  FileSink(int fd, std::string directory, std::string path, std::string temporary_path);
  absl::Status WriteAll();
  absl::Status Failed(absl::string_view verb, int error);

  int fd_;  // -1: closed
  const std::string directory_;
  const std::string path_;
  const std::string temporary_path_;
  bool published_ = false;
  uint64_t bytes_ = 0;
  uint64_t begun_bytes_ = 0;  // whose writeback has been started
  absl::Status status_;
  // Fixed size, because pieces point into it. Not zero-filled: most traces of a large run use only
  // part of it.
  const std::unique_ptr<char[]> buffer_;
  size_t buffered_ = 0;
  std::vector<iovec> pieces_;  // what Flush is to write, in order
};

// Syncs a directory: names created or renamed in it survive a crash.
absl::Status SyncDirectory(const std::string& directory);

}  // namespace jobscope

#endif  // COMMON_FILES_FILE_SINK_H_
