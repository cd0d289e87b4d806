// SPDX-License-Identifier: Apache-2.0
//
// Manages the directory of one run: <logdir>/plugins/profile/<run>, where TensorBoard and XProf
// look for it.
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

// Checks a run name chosen by a user: 1 to 128 characters of [A-Za-z0-9._-], the first neither '.'
// nor '-', not ending in ".part<k>" (the suffix of further parts of a run).
absl::Status CheckRunName(absl::string_view name);

struct RunDirectoryOptions {
  std::string logdir;
  // Name of the run. Empty: local time YYYY_MM_DD_HH_MM_SS, followed by "-2", "-3", ... if that is
  // taken.
  std::string run;
  // Create fails if the disk has less free space.
  uint64_t min_free_bytes = 16 << 20;
  // Mode of all files, regardless of the umask. Directories get the search permission for everybody
  // who may read.
  mode_t file_mode = kPrivateFileMode;
};

// Parses an octal mode ("0600", "640"), which must include the owner's 0600 and nothing besides
// read and write. INVALID_ARGUMENT explains, as the end of a sentence.
absl::StatusOr<mode_t> ParseFileMode(absl::string_view text);

// Creates and fills the directory of one run. Thread-safe once created. All functions block for the
// disk.
class RunDirectory {
 public:
  // Creates the directory and proves that files can be written into it, so that problems with the
  // logdir show before anybody records. mkdir decides between two captures that want the same name.
  // kInvalidArgument: the name of the logdir or of the run is unusable; or somebody else, but not
  // root, owns "plugins" in a logdir to which everybody can write, or the logdir in a directory
  // like /tmp (sticky, and everybody can write to it). kUnavailable: the logdir cannot be written.
  // kAlreadyExists: a run of the chosen name exists. kResourceExhausted: not enough space.
  static absl::StatusOr<RunDirectory> Create(const RunDirectoryOptions& options);

  const std::string& logdir() const { return logdir_; }  // absolute
  const std::string& run() const { return run_; }
  const std::string& path() const { return path_; }  // absolute

  // Returns <logdir>/plugins/profile.
  std::string repository() const;

  // Creates "<stem>.xplane.pb". Part 1 lies in the run's directory; part k > 1 in "<run>.part<k>"
  // beside it, created on first use: several parts in one run would look like several hosts. `part`
  // is 1..9,999.
  absl::StatusOr<std::unique_ptr<FileSink>> CreateTrace(const std::string& stem,
                                                        int part = 1) const;

  // Returns the path of that file relative to the run's directory, as the manifest has it.
  std::string RelativePath(const std::string& stem, int part) const;

  // Writes capture.json atomically. A run without it is unfinished, so write it last.
  absl::Status WriteManifest(const std::string& json) const;

  // Writes the event file by which TensorBoard recognises a logdir:
  // "events.out.tfevents.<time>.<host>.profile-empty". One is enough for all runs; does nothing if
  // one exists. Not synced: a power cut may remove or empty it, which does not affect TensorBoard,
  // and no trace depends on it.
  absl::Status WriteMarker(absl::Time now) const;

  // Moves the directory of a run without a trace to <logdir>/failed_runs, out of sight of viewers,
  // which list every directory of profiles as a run. Removes its empty parts; its name becomes free
  // again. kInvalidArgument: everybody can write to the logdir, and its "failed_runs" belongs to
  // somebody else or is a link; the run then stays where it is.
  absl::Status SetAside();

  // Removes the directory if it is empty, and those of further parts that are empty: a part that
  // could not be written leaves one. A part that is being created meanwhile may fail.
  void RemoveIfEmpty() const;

 private:
  RunDirectory(std::string logdir, std::string run, std::string path, mode_t file_mode);
  void RemoveEmptyParts() const;

  std::string logdir_;
  std::string run_;
  std::string path_;
  mode_t file_mode_;
};

}  // namespace jobscope

#endif  // COMMON_RUN_RUN_DIRECTORY_H_
