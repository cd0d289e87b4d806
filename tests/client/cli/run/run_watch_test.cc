// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run/run_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

// Writes the file of a worker, as workers do.
void Announce(const TemporaryDirectory& directory, const std::string& name,
              const std::string& text) {
  directory.Write("new", text);
  if (rename((directory.path() + "/new").c_str(), (directory.path() + "/" + name).c_str()) != 0) {
    abort();
  }
}

// Returns what is written beside a program that runs `work` and then, if `line` is given, waits to
// be killed after this line.
std::string SaidBeside(const std::string& directory, const std::function<void()>& work,
                       const std::string& line = "") {
  int said[2];
  if (pipe(said) != 0) return "no pipe";
  const pid_t program = fork();
  if (program == 0) {
    dup2(said[1], STDERR_FILENO);
    close(said[0]);
    close(said[1]);
    RunWatchOptions options;
    options.port_directory = directory;
    if (!StartRunWatch(options).ok()) _exit(1);
    work();
    while (!line.empty()) pause();
    _exit(0);
  }
  close(said[1]);
  std::string text;
  char buffer[256];
  pollfd polled = {said[0], POLLIN, 0};
  while (poll(&polled, 1, 60'000) == 1) {
    const ssize_t got = read(said[0], buffer, sizeof(buffer));
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
    if (!line.empty() && text.find(line) != std::string::npos) kill(program, SIGKILL);
  }
  kill(program, SIGKILL);
  waitpid(program, nullptr, 0);
  close(said[0]);
  return text;
}

// A FIFO that somebody has put into the port directory does not hide the workers behind it.
TEST(RunWatch, WhatIsPlantedInThePortDirectoryIsPassedOver) {
  const TemporaryDirectory directory;
  ASSERT_EQ(mkfifo((directory.path() + "/0.addr").c_str(), 0666), 0);
  ASSERT_EQ(symlink("/dev/zero", (directory.path() + "/1.addr").c_str()), 0);
  const std::string line = "jobscope: worker 2 listens on 127.0.0.1:40123\n";
  const auto work = [&directory] { Announce(directory, "2.addr", "127.0.0.1:40123\n"); };
  EXPECT_EQ(SaidBeside(directory.path(), work, line), line);
}

// Workers of earlier programs that were killed.
TEST(RunWatch, WorkersOfEarlierProgramsAreNotAnnounced) {
  const TemporaryDirectory directory;
  Announce(directory, "0.addr", "127.0.0.1:40123\n");
  Announce(directory, "host-1.addr", "127.0.0.1:40124\n");
  const std::string none = SaidBeside(directory.path(), [] {});
  EXPECT_EQ(none.rfind("jobscope: no worker has appeared", 0), 0U) << none;
  // The same rank on the same port.
  const std::string line = "jobscope: worker 0 listens on 127.0.0.1:40123\n";
  const auto work = [&directory] { Announce(directory, "0.addr", "127.0.0.1:40123\n"); };
  EXPECT_EQ(SaidBeside(directory.path(), work, line), line);
}

}  // namespace
}  // namespace jobscope
