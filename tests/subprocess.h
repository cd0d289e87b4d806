// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_SUBPROCESS_H_
#define TESTS_SUBPROCESS_H_

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace jobscope {

// A program with its output caught. Killed and reaped with the object.
class Subprocess {
 public:
  explicit Subprocess(std::vector<std::string> arguments,
                      std::vector<std::string> environment = {}) {
    int out[2];
    int err[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::vector<char*> envp;
    for (std::string& variable : environment) envp.push_back(variable.data());
    for (char** variable = environ; *variable != nullptr; ++variable) envp.push_back(*variable);
    envp.push_back(nullptr);
    if (posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data()) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(err[1]);
    readers_.emplace_back([this, fd = out[0]] { Read(fd, &out_); });
    readers_.emplace_back([this, fd = err[0]] { Read(fd, &err_); });
  }

  ~Subprocess() {
    if (!reaped_ && pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
    for (std::thread& reader : readers_) {
      if (reader.joinable()) reader.join();
    }
  }
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const { kill(pid_, signal); }
  // Returns when every thread has stopped: kill() does not wait for them, and a thread on another
  // processor goes on until the signal has been taken.
  void Stop() const {
    Signal(SIGSTOP);
    siginfo_t stopped;
    waitid(P_PID, static_cast<id_t>(pid_), &stopped, WSTOPPED);
  }

  // Exit code, or 128 + the signal that ended it.
  int Wait() {
    int status = 0;
    if (wait4(pid_, &status, 0, &usage_) != pid_) return -1;
    reaped_ = true;
    for (std::thread& reader : readers_) reader.join();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // Waits until `text` has been printed (stdout or stderr).
  bool AwaitText(const std::string& text, absl::Duration timeout = absl::Minutes(1)) {
    const absl::MutexLock lock(&mutex_);
    const auto found = [this, &text]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return out_.find(text) != std::string::npos || err_.find(text) != std::string::npos;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&found), timeout);
  }

  // Waits for the first line on stdout. Empty: there was none in time.
  std::string AwaitFirstLine() {
    const absl::MutexLock lock(&mutex_);
    const auto found = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return out_.find('\n') != std::string::npos;
    };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&found), absl::Seconds(60))) return "";
    return out_.substr(0, out_.find('\n'));
  }

  std::string out() const {
    const absl::MutexLock lock(&mutex_);
    return out_;
  }
  std::string err() const {
    const absl::MutexLock lock(&mutex_);
    return err_;
  }
  // Largest resident set, after Wait.
  size_t peak_bytes() const { return static_cast<size_t>(usage_.ru_maxrss) * 1024; }

 private:
  void Read(int fd, std::string* text) {
    char buffer[4096];
    ssize_t size = 0;
    while ((size = read(fd, buffer, sizeof buffer)) > 0) {
      const absl::MutexLock lock(&mutex_);
      text->append(buffer, static_cast<size_t>(size));
    }
    close(fd);
  }

  pid_t pid_ = -1;
  bool reaped_ = false;
  rusage usage_{};
  mutable absl::Mutex mutex_;
  std::string out_ ABSL_GUARDED_BY(mutex_);
  std::string err_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> readers_;
};

}  // namespace jobscope

#endif  // TESTS_SUBPROCESS_H_
