// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

// A FIFO that somebody has put into the port directory does not hide the workers behind it.
TEST(RunWatch, WhatIsPlantedInThePortDirectoryIsPassedOver) {
  const TemporaryDirectory directory;
  ASSERT_EQ(mkfifo((directory.path() + "/0.addr").c_str(), 0666), 0);
  ASSERT_EQ(symlink("/dev/zero", (directory.path() + "/1.addr").c_str()), 0);
  directory.Write("2.addr", "127.0.0.1:40123\n");
  int said[2];
  ASSERT_EQ(pipe(said), 0);
  const pid_t program = fork();
  if (program == 0) {
    dup2(said[1], STDERR_FILENO);
    close(said[0]);
    close(said[1]);
    RunWatchOptions options;
    options.port_directory = directory.path();
    if (!StartRunWatch(options).ok()) _exit(1);
    for (;;) pause();
  }
  close(said[1]);
  std::string text;
  char buffer[256];
  pollfd polled = {said[0], POLLIN, 0};
  while (text.find('\n') == std::string::npos && poll(&polled, 1, 60'000) == 1) {
    const ssize_t got = read(said[0], buffer, sizeof(buffer));
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  EXPECT_EQ(text, "jobscope: worker 2 listens on 127.0.0.1:40123\n");
  kill(program, SIGKILL);
  waitpid(program, nullptr, 0);
  close(said[0]);
}

}  // namespace
}  // namespace jobscope
