// SPDX-License-Identifier: Apache-2.0
//
// Starts a worker in a process of its own, which a test controls: tests/server/crowded_worker.cc.
#ifndef TESTS_SERVER_CROWDED_WORKER_PROCESS_H_
#define TESTS_SERVER_CROWDED_WORKER_PROCESS_H_

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

namespace jobscope {

// CROWDED_WORKER is the program's path. Killed and reaped with the object.
class CrowdedWorker {
 public:
  CrowdedWorker(int descriptors, std::vector<std::string> environment) {
    int in[2];
    int out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::string program = CROWDED_WORKER;
    std::string limit = std::to_string(descriptors);
    std::vector<char*> argv = {program.data(), limit.data(), nullptr};
    std::vector<char*> envp;
    for (std::string& variable : environment) envp.push_back(variable.data());
    for (char** variable = environ; *variable != nullptr; ++variable) envp.push_back(*variable);
    envp.push_back(nullptr);
    if (posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data()) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = fdopen(out[0], "r");
    address_ = ReadLine();
  }
  ~CrowdedWorker() {
    close(to_);
    fclose(from_);
    if (pid_ > 0) kill(pid_, SIGKILL);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  CrowdedWorker(const CrowdedWorker&) = delete;
  CrowdedWorker& operator=(const CrowdedWorker&) = delete;

  // Empty if it has not started.
  const std::string& address() const { return address_; }
  std::string Ask(const std::string& command) {
    const std::string line = command + "\n";
    (void)!write(to_, line.data(), line.size());
    return ReadLine();
  }
  size_t AskNumber(const std::string& command) { return std::stoul("0" + Ask(command)); }

  // Of one that could not start.
  size_t peak_bytes() { return std::stoul("0" + ReadLine()); }

 private:
  std::string ReadLine() {
    char buffer[256];
    if (fgets(buffer, sizeof(buffer), from_) == nullptr) return "";
    std::string line = buffer;
    while (!line.empty() && line.back() == '\n') line.pop_back();
    return line;
  }

  pid_t pid_ = -1;
  int to_ = -1;
  FILE* from_ = nullptr;
  std::string address_;
};

}  // namespace jobscope

#endif  // TESTS_SERVER_CROWDED_WORKER_PROCESS_H_
