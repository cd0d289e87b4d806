// SPDX-License-Identifier: Apache-2.0
//
// The directory that holds one run: <logdir>/plugins/profile/<run>, as TensorBoard and XProf look
// for it.
#ifndef COMMON_RUN_RUN_DIRECTORY_H_
#define COMMON_RUN_RUN_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/files/file_sink.h"

namespace jobscope {

// A run's name as users may choose it: 1 to 128 characters of [A-Za-z0-9._-], the first neither '.'
// nor '-', no ".part<k>" at the end (parts of other runs are called so).
absl::Status CheckRunName(absl::string_view name);

struct RunDirectoryOptions {
  std::string logdir;
  // The run's name. Empty: local time YYYY_MM_DD_HH_MM_SS, with "-2", "-3", ... behind it where
  // that is taken.
  std::string run;
  // Refuses a disk with less room than this.
  uint64_t min_free_bytes = 16 << 20;
  // Of all files, whatever the umask; directories that are made can be searched by whoever may
  // read.
  mode_t file_mode = kPrivateFileMode;
};

// "0600", "640": octal; the owner's 0600 must be in it, nothing else than read and write.
// INVALID_ARGUMENT says so, as the end of a sentence.
absl::StatusOr<mode_t> ParseFileMode(absl::string_view text);

// Thread-safe once created. All functions block for the disk.
class RunDirectory {
 public:
  // Makes the directory, and proves that files can be written into it: whatever is wrong with the
  // logdir is found out here, before anybody records anything. mkdir decides between two captures
  // that want the same name. kInvalidArgument: the logdir or the name will not do, or the
  // logdir can be written by everybody and its "plugins" is somebody else's; kAlreadyExists:
  // a run of the chosen name is there; kResourceExhausted: no room.
  static absl::StatusOr<RunDirectory> Create(const RunDirectoryOptions& options);

  const std::string& logdir() const { return logdir_; }  // absolute
  const std::string& run() const { return run_; }
  const std::string& path() const { return path_; }  // absolute

  // <logdir>/plugins/profile
  std::string repository() const;

  // A file "<stem>.xplane.pb". Part 1 lies in the run's directory; part k > 1 in "<run>.part<k>"
  // beside it, which is made when first wanted: several parts in one run would look like several
  // hosts. `part` is 1..9,999.
  absl::StatusOr<std::unique_ptr<FileSink>> CreateTrace(const std::string& stem,
                                                        int part = 1) const;

  // Writes capture.json, whole or not at all. A run without it is unfinished: so it comes last.
  absl::Status WriteManifest(const std::string& json) const;

  // The event file by which TensorBoard recognises a logdir:
  // "events.out.tfevents.<time>.<host>.profile-empty". One is enough for all runs; does nothing
  // where there is one. Not synced: a power cut may take it, or empty it, which changes nothing for
  // TensorBoard; no trace depends on it.
  absl::Status WriteMarker(absl::Time now) const;

  // Moves the directory to <logdir>/failed_runs, where viewers do not look: they list every
  // directory of profiles as a run. Its name is free again then. For a run without a trace.
  absl::Status SetAside();

  // Removes the directory if nothing has been put into it.
  void RemoveIfEmpty() const;

 private:
  RunDirectory(std::string logdir, std::string run, std::string path, mode_t file_mode);

  std::string logdir_;
  std::string run_;
  std::string path_;
  mode_t file_mode_;
};

}  // namespace jobscope

#endif  // COMMON_RUN_RUN_DIRECTORY_H_
