// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run/run_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/files/regular_file.h"
#include "common/process/proc_files.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

constexpr char kSuffix[] = ".addr";
// Poll interval if the kernel cannot report the program's end or new files.
constexpr int kPollMs = 200;
constexpr size_t kMaxTextBytes = 200;
constexpr size_t kMaxPortFileBytes = 4096;

std::vector<std::string> FilesIn(const std::string& directory) {
  std::vector<std::string> names;
  DIR* const opened = opendir(directory.c_str());
  if (opened == nullptr) return names;
  while (const dirent* entry = readdir(opened)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(opened);
  std::sort(names.begin(), names.end());
  return names;
}

struct PortFile {
  std::string address;
  std::string version;  // differs after the file was replaced or changed
};
using PortFiles = std::map<std::string, PortFile>;  // by name

PortFiles PortFilesIn(const std::string& directory) {
  PortFiles files;
  for (const std::string& name : FilesIn(directory)) {
    if (!absl::EndsWith(name, kSuffix)) continue;
    const absl::StatusOr<RegularFile> file = RegularFile::Open(absl::StrCat(directory, "/", name));
    const absl::StatusOr<std::string> text =
        file.ok() ? file->Read(kMaxPortFileBytes) : absl::StatusOr<std::string>(file.status());
    if (!text.ok() || text->empty()) continue;
    const struct stat& info = file->info();
    files[name] = {text->substr(0, text->find('\n')),
                   absl::StrCat(info.st_ino, " ", info.st_mtim.tv_sec, " ", info.st_mtim.tv_nsec)};
  }
  return files;
}

// Returns whether the process is gone, or a zombie that its parent has not yet waited for. For
// kernels without pidfd_open; otherwise see HasEnded in common/process/pid_space.h.
bool HasEndedByProc(pid_t pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return true;
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string stat;
  std::getline(file, stat);
  const std::optional<char> state = StateInStat(stat);
  return state == 'Z' || state == 'X';
}

class Watch {
 public:
  // `others` are the files from before the program.
  Watch(const RunWatchOptions& options, const PortFiles& others, pid_t program, int program_fd)
      : options_(options), others_(others), program_(program), program_fd_(program_fd) {}

  void Run() {
    changes_fd_ = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (changes_fd_ >= 0 &&
        inotify_add_watch(changes_fd_, options_.port_directory.c_str(), IN_MOVED_TO) < 0) {
      close(changes_fd_);
      changes_fd_ = -1;
    }
    Look();
    const int wait_ms = program_fd_ < 0 || changes_fd_ < 0 ? kPollMs : -1;
    while (true) {
      pollfd polled[2] = {{program_fd_, POLLIN, 0}, {changes_fd_, POLLIN, 0}};  // -1: ignored
      poll(polled, 2, wait_ms);
      DrainChanges();
      Look();
      if (program_fd_ >= 0 ? polled[0].revents != 0 : HasEndedByProc(program_)) break;
    }
    if (!seen_.empty() || any_change_) return CleanUp();
    Say("no worker has appeared; JOBSCOPE_LOG_LEVEL=debug logs which processes were skipped, and "
        "why");
    CleanUp();
  }

 private:
  void Say(const std::string& text) {
    if (options_.quiet) return;
    const std::string line = absl::StrCat("jobscope: ", text, "\n");
    const ssize_t ignored = write(STDERR_FILENO, line.data(), line.size());
    static_cast<void>(ignored);
  }

  void DrainChanges() {
    if (changes_fd_ < 0) return;
    alignas(inotify_event) char buffer[4096];
    while (read(changes_fd_, buffer, sizeof(buffer)) > 0) any_change_ = true;
  }

  // A restarted worker has another address in the same file.
  void Look() {
    for (const auto& [name, file] : PortFilesIn(options_.port_directory)) {
      const auto other = others_.find(name);
      if (other != others_.end() && other->second.version == file.version) continue;
      if (seen_[name] == file.address) continue;
      seen_[name] = file.address;
      Say(absl::StrCat("worker ",
                       OneLine(std::string(absl::StripSuffix(name, kSuffix)), kMaxTextBytes),
                       " listens on ", OneLine(file.address, kMaxTextBytes)));
    }
  }

  void CleanUp() {
    if (!options_.remove) return;
    for (const std::string& name : FilesIn(options_.port_directory)) {
      unlink(absl::StrCat(options_.port_directory, "/", name).c_str());
    }
    rmdir(options_.port_directory.c_str());
  }

  const RunWatchOptions& options_;
  const PortFiles& others_;
  const pid_t program_;
  const int program_fd_;  // readable when the program has ended; -1: this kernel has none
  int changes_fd_ = -1;
  bool any_change_ = false;                  // includes workers that ended before we looked
  std::map<std::string, std::string> seen_;  // address by file
};

// Runs in the process that stays, with all signals blocked. Never returns.
[[noreturn]] void WatchAndExit(const RunWatchOptions& options, const PortFiles& others,
                               pid_t program, int program_fd) {
  // Readers of the caller's pipes must not wait for us.
  const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(null_fd, STDIN_FILENO);
  dup2(null_fd, STDOUT_FILENO);
  if (options.quiet) dup2(null_fd, STDERR_FILENO);
  for (const std::string& name : FilesIn("/proc/self/fd")) {
    const int fd = std::atoi(name.c_str());
    if (fd > STDERR_FILENO && fd != program_fd) close(fd);
  }
  const int ignored = chdir("/");  // keeps no mount busy
  static_cast<void>(ignored);
  Watch(options, others, program, program_fd).Run();
  _exit(0);
}

}  // namespace

absl::Status StartRunWatch(const RunWatchOptions& options) {
  if (options.quiet && !options.remove) return absl::OkStatus();  // nothing to do
  int adopts = 0;
  if (getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &adopts) == 0 && adopts != 0)) {
    // The grandchild would become a child of the program, and a program that waits for all of its
    // children would wait for one that waits for the program.
    return absl::UnavailableError(
        "the workers' addresses are not printed, they are in the directory only: this process "
        "adopts orphaned processes (process 1 of a container, or a subreaper)");
  }
  const PortFiles others = PortFilesIn(options.port_directory);
  const pid_t program = getpid();
  // Stays valid when this process executes the program; closed there.
  const int program_fd = static_cast<int>(syscall(SYS_pidfd_open, program, 0));
  // Before the fork: a signal to the whole group, such as Ctrl-C, may come before the new process
  // has run at all.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t between = fork();
  if (between == 0) {
    // A grandchild whose parent has ended is no child of this process.
    const pid_t watch = fork();
    if (watch == 0) WatchAndExit(options, others, program, program_fd);
    _exit(watch < 0 ? 1 : 0);
  }
  int status = 1;
  if (between > 0) {
    while (waitpid(between, &status, 0) < 0 && errno == EINTR) {
    }
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (program_fd >= 0) close(program_fd);
  if (between > 0 && status == 0) return absl::OkStatus();
  return absl::UnavailableError(
      "cannot start the process that prints the workers' addresses; raise the limit on processes "
      "(ulimit -u)");
}

}  // namespace jobscope
