// SPDX-License-Identifier: Apache-2.0
#include "common/run/run_directory.h"

#include <fcntl.h>
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
#include "common/run/tfrecord.h"

namespace jobscope {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kMarkerSuffix = ".profile-empty";
constexpr size_t kMaxRunBytes = 128;
constexpr int kMaxPart = 9999;
// Maximum number of captures that begin in the same second in one logdir.
constexpr int kMaxSuffix = 10000;

absl::Status Cannot(absl::string_view verb, const std::string& path, int error) {
  const std::string text = absl::StrCat("cannot ", verb, " ", path, ": ", std::strerror(error),
                                        "; name a logdir that can be written");
  return error == ENAMETOOLONG ? absl::InvalidArgumentError(text) : absl::UnavailableError(text);
}

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

mode_t DirectoryMode(mode_t file_mode) { return file_mode | 0700 | ((file_mode & 0444) >> 2); }

// Gives a new directory its mode. By descriptor: where everybody may rename, somebody may have put
// a link in its place.
void Share(const std::string& path, mode_t mode) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  struct stat info {};
  if (fstat(fd, &info) == 0) {
    // Inherited: all that is created in a team's logdir belongs to the team's group.
    (void)!fchmod(fd, mode | (info.st_mode & S_ISGID));
  }
  close(fd);
}

// Creates a directory. False: it exists already.
absl::StatusOr<bool> MakeDirectory(const std::string& path, mode_t file_mode) {
  if (mkdir(path.c_str(), 0700) == 0) {
    if (DirectoryMode(file_mode) != 0700) Share(path, DirectoryMode(file_mode));
    return true;
  }
  if (errno == EEXIST) return false;
  return Cannot("create", path, errno);
}

// Creates a run's directory. False: the name is taken, also by leftover parts of a removed run:
// their traces would be taken for ours.
absl::StatusOr<bool> MakeRun(const std::string& path, mode_t file_mode) {
  struct stat info {};
  if (lstat(PartPath(path, 2).c_str(), &info) == 0) return false;
  return MakeDirectory(path, file_mode);
}

// Creates all missing parents.
absl::Status MakeParents(const fs::path& path, mode_t file_mode) {
  std::error_code error;
  if (fs::is_directory(path, error)) return absl::OkStatus();
  if (path.has_relative_path()) {
    if (absl::Status status = MakeParents(path.parent_path(), file_mode); !status.ok()) {
      return status;
    }
  }
  const absl::StatusOr<bool> made = MakeDirectory(path.string(), file_mode);
  if (!made.ok() || *made || fs::is_directory(path, error)) return made.status();
  return Cannot("create", path.string(), ENOTDIR);
}

// In a directory where everybody can create names (/tmp), somebody may have created `child`
// beforehand: its owner could read and replace its content. `shared`: the mode bits of such a
// directory.
absl::Status CheckOwner(const std::string& parent, const std::string& child,
                        mode_t shared = S_IWOTH) {
  struct stat info {};
  if (stat(parent.c_str(), &info) != 0 || (info.st_mode & shared) != shared) {
    return absl::OkStatus();
  }
  if (lstat(child.c_str(), &info) != 0) return Cannot("examine", child, errno);
  if (S_ISDIR(info.st_mode) && (info.st_uid == geteuid() || info.st_uid == 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      child, S_ISDIR(info.st_mode) ? absl::StrCat(" belongs to user ", info.st_uid) : " is a link",
      ", and everybody may write to ", parent,
      ": others could read or replace the traces; name another logdir"));
}

// Creates the logdir if it is missing. One that a team shares may belong to any of them, except in
// a directory like /tmp: there nobody has reserved its name.
absl::Status MakeLogdir(const std::string& logdir, mode_t file_mode) {
  if (absl::Status made = MakeParents(logdir, file_mode); !made.ok()) return made;
  std::error_code error;
  const fs::path real = fs::canonical(logdir, error);
  return error ? absl::OkStatus()
               : CheckOwner(real.parent_path().string(), real.string(), S_IWOTH | S_ISVTX);
}

// A directory of ours in `parent`, which may exist already.
absl::Status MakeOwn(const std::string& parent, const std::string& child, mode_t file_mode) {
  const absl::StatusOr<bool> made = MakeDirectory(child, file_mode);
  return made.ok() ? CheckOwner(parent, child) : made.status();
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
  if (options.logdir.empty()) {
    return absl::InvalidArgumentError("logdir '': it is empty; name a directory");
  }
  if (absl::StrContains(options.logdir, "://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("logdir ", options.logdir,
                     ": remote storage is not written directly; capture into a local directory "
                     "and copy the run"));
  }
  if (!options.run.empty()) {
    absl::Status status = CheckRunName(options.run);
    if (!status.ok()) return status;
  }
  std::error_code error;
  const fs::path absolute = fs::absolute(options.logdir, error);
  if (error) return Cannot("examine", options.logdir, error.value());
  // A normalized "link/.." would not lead to where the link points.
  const bool climbs = absl::StrContains(options.logdir, "..");
  const std::string logdir = (climbs ? absolute : absolute.lexically_normal()).string();
  const std::string repository = absl::StrCat(logdir, "/plugins/profile");
  const std::string plugins = absl::StrCat(logdir, "/plugins");
  absl::Status parents = MakeLogdir(logdir, options.file_mode);
  if (parents.ok()) parents = MakeParents(plugins, options.file_mode);
  if (parents.ok()) parents = CheckOwner(logdir, plugins);
  if (parents.ok()) parents = MakeParents(repository, options.file_mode);
  if (parents.ok()) parents = CheckOwner(plugins, repository);
  if (!parents.ok()) {
    return absl::Status(parents.code(),
                        absl::StrCat("logdir ", options.logdir, ": ", parents.message()));
  }
  absl::Status room = CheckRoom(repository, options.min_free_bytes);
  if (!room.ok()) return room;

  std::string run = options.run;
  std::string path = absl::StrCat(repository, "/", run);
  if (!run.empty()) {
    const absl::StatusOr<bool> made = MakeRun(path, options.file_mode);
    if (!made.ok()) return made.status();
    if (!*made) {
      return absl::AlreadyExistsError(absl::StrCat(
          "session_id: the run ", path, ", or a part of it, exists already; choose another name"));
    }
  } else {
    const std::string base =
        absl::FormatTime("%Y_%m_%d_%H_%M_%S", absl::Now(), absl::LocalTimeZone());
    for (int n = 1;; ++n) {
      run = n == 1 ? base : absl::StrCat(base, "-", n);
      path = absl::StrCat(repository, "/", run);
      const absl::StatusOr<bool> made = MakeRun(path, options.file_mode);
      if (!made.ok()) return made.status();
      if (*made) break;
      if (n == kMaxSuffix) {
        return absl::AlreadyExistsError(
            absl::StrCat("no name is left for a run of this second in ", repository));
      }
    }
  }
  RunDirectory directory(logdir, run, path, options.file_mode);

  // A directory can sometimes be created where a file cannot (quota, full disk): tries a file of a
  // manifest's size.
  absl::StatusOr<std::unique_ptr<FileSink>> probe = FileSink::Create(path, "probe");
  absl::Status status = probe.status();
  if (status.ok()) status = (*probe)->Write(std::string(4096, ' '), false);
  if (status.ok()) status = (*probe)->Flush();
  if (probe.ok()) probe->reset();
  if (!status.ok()) {
    directory.RemoveIfEmpty();
    return status;
  }
  return directory;
}

std::string RunDirectory::repository() const { return absl::StrCat(logdir_, "/plugins/profile"); }

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
  absl::Status status = (*file)->Write(json, true);
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
  absl::Status status = (*file)->Write(FileVersionRecord(now), false);
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
