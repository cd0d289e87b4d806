// SPDX-License-Identifier: Apache-2.0
//
// What a process pays at its start for an inherited LD_PRELOAD:
//
//   attach_start_cost LIBRARY [COUNT] [PROGRAM]     200 starts of /bin/true in each of five
//   settings
//
// The settings take turns, so that what else the machine does hits all of them. Prints for each the
// median and the quickest, in microseconds from posix_spawn until the process has been waited for.
// Exit code 1: the median without an address is over that without us by more than 200 us.
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

namespace {

struct Setting {
  const char* name;
  std::vector<std::string> variables;
  std::vector<double> times_us;
};

constexpr double kBudgetUs = 200;

double StartUs(const char* program, const std::vector<std::string>& variables) {
  std::vector<char*> environment;
  environment.reserve(variables.size() + 1);
  for (const std::string& variable : variables) {
    environment.push_back(const_cast<char*>(variable.c_str()));
  }
  environment.push_back(nullptr);
  char* const argv[] = {const_cast<char*>(program), nullptr};
  const auto began = std::chrono::steady_clock::now();
  pid_t child = -1;
  int status = 0;
  if (posix_spawn(&child, program, nullptr, nullptr, argv, environment.data()) != 0 ||
      waitpid(child, &status, 0) != child || status != 0) {
    fprintf(stderr, "%s does not run: status %d\n", program, status);
    exit(2);
  }
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began)
      .count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: attach_start_cost LIBRARY [COUNT] [PROGRAM]\n");
    return 2;
  }
  const int count = argc > 2 ? atoi(argv[2]) : 200;
  const char* const program = argc > 3 ? argv[3] : "/bin/true";
  const std::string preload = std::string("LD_PRELOAD=") + argv[1];
  const std::string listen = "JOBSCOPE_LISTEN=127.0.0.1:0";
  Setting settings[] = {
      {"without us", {}, {}},
      {"preloaded, no address", {preload}, {}},
      {"preloaded, a tool by its name", {preload, listen}, {}},
      {"preloaded, wanted, over before the delay", {preload, listen, "JOBSCOPE_PROGRAMS=*"}, {}},
      {"preloaded, wanted, no delay",
       {preload, listen, "JOBSCOPE_PROGRAMS=*", "JOBSCOPE_ATTACH_DELAY_MS=0"},
       {}},
  };
  for (int i = -10; i < count; ++i) {  // the first ones warm the page cache
    for (Setting& setting : settings) {
      const double time_us = StartUs(program, setting.variables);
      if (i >= 0) setting.times_us.push_back(time_us);
    }
  }
  const double base_us = Median(settings[0].times_us);
  for (const Setting& setting : settings) {
    const double median_us = Median(setting.times_us);
    printf("%-42s median %7.0f us  quickest %7.0f us  more than without us %+6.0f us\n",
           setting.name, median_us,
           *std::min_element(setting.times_us.begin(), setting.times_us.end()),
           median_us - base_us);
  }
  return Median(settings[1].times_us) - base_us <= kBudgetUs ? 0 : 1;
}
