// SPDX-License-Identifier: Apache-2.0
#include "common/run/run_directory.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/run/directories.h"
#include "common/run/tfrecord.h"

namespace jobscope {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kMarkerSuffix = ".profile-empty";
constexpr size_t kMaxRunBytes = 128;
constexpr int kMaxPart = 9999;
// Maximum number of captures that begin in the same second in one logdir.
constexpr int kMaxSuffix = 10000;

absl::Status CheckRoom(const std::string& directory, uint64_t min_free_bytes) {
  struct statvfs system {};
  if (statvfs(directory.c_str(), &system) != 0) {
    return Cannot("examine", directory, errno);
  }
  const uint64_t free_bytes = uint64_t{system.f_bavail} * system.f_frsize;
  if (free_bytes < min_free_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("logdir ", directory, ": only ", free_bytes >> 20, " MiB free, at least ",
                     min_free_bytes >> 20, " MiB are needed; make room, or take another logdir"));
  }
  if (system.f_files != 0 && system.f_favail == 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "logdir ", directory, ": no inode is free; remove files, or take another logdir"));
  }
  return absl::OkStatus();
}

std::string PartPath(const std::string& run_path, int part) {
  return absl::StrCat(run_path, ".part", part);
}

// Creates a run's directory. False: the name is taken, also by leftover parts of a removed run:
// their traces would be taken for ours.
absl::StatusOr<bool> MakeRun(const std::string& path, mode_t file_mode) {
  struct stat info {};
  if (lstat(PartPath(path, 2).c_str(), &info) == 0) return false;
  return MakeDirectory(path, file_mode);
}

std::string RepositoryIn(const std::string& logdir) {
  return absl::StrCat(logdir, "/plugins/profile");
}

absl::StatusOr<std::string> AbsoluteLogdir(const std::string& logdir) {
  if (logdir.empty()) {
    return absl::InvalidArgumentError("logdir '': it is empty; name a directory");
  }
  if (absl::StrContains(logdir, "://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("logdir ", logdir,
                     ": remote storage is not written directly; capture into a local directory "
                     "and copy the run"));
  }
  std::error_code error;
  const fs::path absolute = fs::absolute(logdir, error);
  if (error) return Cannot("examine", logdir, error.value());
  // A normalized "link/.." would not lead to where the link points.
  const bool climbs = absl::StrContains(logdir, "..");
  return (climbs ? absolute : absolute.lexically_normal()).string();
}

// Creates the logdir and the directory of its runs, those that are missing.
absl::Status MakeRepository(const std::string& logdir, mode_t file_mode) {
  const std::string plugins = absl::StrCat(logdir, "/plugins");
  const std::string repository = RepositoryIn(logdir);
  absl::Status status = MakeLogdir(logdir, file_mode);
  if (status.ok()) status = MakeParents(plugins, file_mode);
  if (status.ok()) status = CheckOwner(logdir, plugins);
  if (status.ok()) status = MakeParents(repository, file_mode);
  if (status.ok()) status = CheckOwner(plugins, repository);
  return status;
}

// Returns the name of the run.
absl::StatusOr<std::string> MakeNamedRun(const std::string& repository, const std::string& run,
                                         mode_t file_mode) {
  const std::string path = absl::StrCat(repository, "/", run);
  const absl::StatusOr<bool> made = MakeRun(path, file_mode);
  if (!made.ok()) return made.status();
  if (*made) return run;
  return absl::AlreadyExistsError(absl::StrCat(
      "session_id: the run ", path, ", or a part of it, exists already; choose another name"));
}

// Returns the name of the run: the local time, with a number if that is taken.
absl::StatusOr<std::string> MakeRunOfThisSecond(const std::string& repository, mode_t file_mode) {
  const std::string base =
      absl::FormatTime("%Y_%m_%d_%H_%M_%S", absl::Now(), absl::LocalTimeZone());
  for (int n = 1; n <= kMaxSuffix; ++n) {
    const std::string run = n == 1 ? base : absl::StrCat(base, "-", n);
    const absl::StatusOr<bool> made = MakeRun(absl::StrCat(repository, "/", run), file_mode);
    if (!made.ok()) return made.status();
    if (*made) return run;
  }
  return absl::AlreadyExistsError(
      absl::StrCat("no name is left for a run of this second in ", repository));
}

// A directory can sometimes be created where a file cannot (quota, full disk): tries a file of a
// manifest's size.
absl::Status CheckWritable(const std::string& directory) {
  absl::StatusOr<std::unique_ptr<FileSink>> probe = FileSink::Create(directory, "probe");
  if (!probe.ok()) return probe.status();
  absl::Status status = (*probe)->Write(std::string(4096, ' '), /*stable=*/false);
  if (status.ok()) status = (*probe)->Flush();
  return status;
}

}  // namespace

absl::StatusOr<mode_t> ParseFileMode(absl::string_view text) {
  mode_t mode = 0;
  bool digits = !text.empty() && text.size() <= 4;
  for (const char c : text) {
    digits = digits && c >= '0' && c <= '7';
    mode = mode * 8 + static_cast<mode_t>(c - '0');
  }
  if (digits && (mode & 0600) == 0600 && (mode & ~mode_t{0666}) == 0) return mode;
  return absl::InvalidArgumentError("is not a file mode; give 0600, 0640, 0644 or the like");
}

absl::Status CheckRunName(absl::string_view name) {
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("session_id: ", why));
  };
  if (name.empty()) return bad("it is empty");
  if (name.size() > kMaxRunBytes) {
    return bad(absl::StrCat("longer than ", kMaxRunBytes, " characters"));
  }
  for (const char c : name) {
    if (!absl::ascii_isalnum(c) && c != '.' && c != '_' && c != '-') {
      return bad("only letters, digits, '.', '_' and '-' are allowed in a run's name");
    }
  }
  if (name[0] == '.' || name[0] == '-') return bad("it may begin with neither '.' nor '-'");
  size_t digits = name.size();
  while (digits > 0 && absl::ascii_isdigit(name[digits - 1])) --digits;
  if (digits < name.size() && absl::EndsWith(name.substr(0, digits), ".part")) {
    return bad("names that end in .part<number> are those of further parts of a run");
  }
  return absl::OkStatus();
}

RunDirectory::RunDirectory(std::string logdir, std::string run, std::string path, mode_t file_mode)
    : logdir_(std::move(logdir)),
      run_(std::move(run)),
      path_(std::move(path)),
      file_mode_(file_mode) {}

absl::StatusOr<RunDirectory> RunDirectory::Create(const RunDirectoryOptions& options) {
  const absl::StatusOr<std::string> logdir = AbsoluteLogdir(options.logdir);
  if (!logdir.ok()) return logdir.status();
  if (!options.run.empty()) {
    if (absl::Status status = CheckRunName(options.run); !status.ok()) return status;
  }
  const std::string repository = RepositoryIn(*logdir);
  if (absl::Status made = MakeRepository(*logdir, options.file_mode); !made.ok()) {
    return absl::Status(made.code(), absl::StrCat("logdir ", options.logdir, ": ", made.message()));
  }
  if (absl::Status room = CheckRoom(repository, options.min_free_bytes); !room.ok()) return room;
  const absl::StatusOr<std::string> run =
      options.run.empty() ? MakeRunOfThisSecond(repository, options.file_mode)
                          : MakeNamedRun(repository, options.run, options.file_mode);
  if (!run.ok()) return run.status();
  RunDirectory directory(*logdir, *run, absl::StrCat(repository, "/", *run), options.file_mode);
  if (absl::Status status = CheckWritable(directory.path()); !status.ok()) {
    directory.RemoveIfEmpty();
    return status;
  }
  return directory;
}

std::string RunDirectory::repository() const { return RepositoryIn(logdir_); }

absl::StatusOr<std::unique_ptr<FileSink>> RunDirectory::CreateTrace(const std::string& stem,
                                                                    int part) const {
  if (part < 1 || part > kMaxPart) {
    return absl::InvalidArgumentError(
        absl::StrCat("part ", part, " of ", stem, ": not within 1..", kMaxPart));
  }
  std::string directory = path_;
  if (part > 1) {
    directory = PartPath(path_, part);
    const absl::Status made = MakeOwn(repository(), directory, file_mode_);
    if (!made.ok()) return made;
  }
  return FileSink::Create(directory, absl::StrCat(stem, ".xplane.pb"), file_mode_);
}

std::string RunDirectory::RelativePath(const std::string& stem, int part) const {
  const std::string file = absl::StrCat(stem, ".xplane.pb");
  return part == 1 ? file : absl::StrCat(PartPath(absl::StrCat("../", run_), part), "/", file);
}

absl::Status RunDirectory::WriteManifest(const std::string& json) const {
  absl::StatusOr<std::unique_ptr<FileSink>> file =
      FileSink::Create(path_, "capture.json", file_mode_);
  if (!file.ok()) return file.status();
  absl::Status status = (*file)->Write(json, /*stable=*/true);
  if (!status.ok()) return status;
  return (*file)->Publish();
}

absl::Status RunDirectory::WriteMarker(absl::Time now) const {
  std::error_code error;
  for (fs::directory_iterator it(logdir_, error), end; !error && it != end; it.increment(error)) {
    if (absl::EndsWith(it->path().filename().string(), kMarkerSuffix)) return absl::OkStatus();
  }
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  absl::StatusOr<std::unique_ptr<FileSink>> file = FileSink::Create(
      logdir_,
      absl::StrCat("events.out.tfevents.", absl::ToUnixSeconds(now), ".", host, kMarkerSuffix),
      file_mode_);
  // Another capture is writing it.
  if (absl::IsAlreadyExists(file.status())) return absl::OkStatus();
  if (!file.ok()) return file.status();
  absl::Status status = (*file)->Write(FileVersionRecord(now), /*stable=*/false);
  if (!status.ok()) return status;
  return (*file)->Publish(FileSink::Name::kMayVanish);
}

absl::Status RunDirectory::SetAside() {
  RemoveEmptyParts();
  const std::string failed = absl::StrCat(logdir_, "/failed_runs");
  const absl::Status made = MakeOwn(logdir_, failed, file_mode_);
  if (!made.ok()) return made;
  for (int n = 1; n <= kMaxSuffix; ++n) {
    const std::string path = absl::StrCat(failed, "/", run_, n == 1 ? "" : absl::StrCat("-", n));
    // Replaces an empty directory, which belongs to nobody.
    if (rename(path_.c_str(), path.c_str()) == 0) {
      path_ = path;
      return absl::OkStatus();
    }
    if (errno != EEXIST && errno != ENOTEMPTY) break;
  }
  return absl::UnavailableError(
      absl::StrCat("cannot move ", path_, " to ", failed, ": ", std::strerror(errno)));
}

void RunDirectory::RemoveEmptyParts() const {
  for (int part = 2; part <= kMaxPart; ++part) {
    const bool removed = rmdir(PartPath(path_, part).c_str()) == 0;
    if (!removed && errno != ENOTEMPTY && errno != EEXIST) break;  // there are no more
  }
}

void RunDirectory::RemoveIfEmpty() const {
  RemoveEmptyParts();
  rmdir(path_.c_str());
}

}  // namespace jobscope
