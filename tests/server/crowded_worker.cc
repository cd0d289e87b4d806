// SPDX-License-Identifier: Apache-2.0
//
// A worker whose job has few file descriptors:
//   crowded_worker NOFILE     with that soft limit; listens where JOBSCOPE_LISTEN says
// Prints its address (or, if it cannot start, nothing and the answer to `memory`), then answers
// each line of its input with one:
//   use     opens files until there is no descriptor left; how many
//   free    closes them again
//   open N  opens and closes N files, as a training loop does; "ok" or "failed"
//   count   open descriptors
//   memory  the largest resident set so far, in bytes
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "jobscope/profiler_server.h"

namespace {

std::vector<int> OpenFiles(size_t count) {
  std::vector<int> files;
  for (int fd = 0; files.size() < count && fd >= 0;) {
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) files.push_back(fd);
  }
  return files;
}

size_t CloseAll(std::vector<int>* files) {
  const size_t count = files->size();
  for (const int fd : *files) close(fd);
  files->clear();
  return count;
}

size_t CountDescriptors() {
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  size_t count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count - 3;  // ".", "..", the directory itself
}

size_t PeakBytes() {
  // Not getrusage: its figure begins with the peak of the parent.
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    size_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (argc > 1) limit.rlim_cur = static_cast<rlim_t>(std::atoi(argv[1]));
  setrlimit(RLIMIT_NOFILE, &limit);
  const auto server = jobscope::ProfilerServer::Start({});
  if (!server) {
    std::cerr << server.error() << "\n";
    std::cout << "\n" << PeakBytes() << std::endl;
    return 2;
  }
  std::cout << server.address() << std::endl;
  std::vector<int> used;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    size_t number = 0;
    words >> command >> number;
    if (command == "use") {
      used = OpenFiles(SIZE_MAX);
      std::cout << used.size() << std::endl;
    } else if (command == "free") {
      std::cout << CloseAll(&used) << std::endl;
    } else if (command == "open") {
      std::vector<int> files = OpenFiles(number);
      std::cout << (CloseAll(&files) == number ? "ok" : "failed") << std::endl;
    } else if (command == "count") {
      std::cout << CountDescriptors() << std::endl;
    } else if (command == "memory") {
      std::cout << PeakBytes() << std::endl;
    }
  }
  return 0;
}
