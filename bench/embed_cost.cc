// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost of libjobscope.so for the process that embeds it, in a bare C-like host: size,
// time to load and start, memory, threads, idle wake-ups, fork(). Loads the library in fresh
// processes; this program itself does not link it.
//
//   embed_cost LIBRARY [PROCESSES [IDLE_SECONDS]]   defaults: 9 and 5; prints JSON
//                                               (bench/figures.py), all values of each figure
#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "jobscope/jobscope_c.h"

namespace {

using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point began) {
  return std::chrono::duration<double, std::milli>(Clock::now() - began).count();
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Returns a number from a /proc status file, by the name of its line; 0 if it is missing.
double StatusNumber(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, name.size(), name) == 0) return std::atof(line.c_str() + name.size() + 1);
  }
  return 0;
}

struct Activity {
  double threads = 0;
  double switches = 0;   // voluntary and involuntary, of all threads
  double cpu_ticks = 0;  // of the process, user and system
};

Activity ReadActivity() {
  Activity activity;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* entry = tasks == nullptr ? nullptr : readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    const std::string path = std::string("/proc/self/task/") + entry->d_name + "/status";
    ++activity.threads;
    activity.switches += StatusNumber(path, "voluntary_ctxt_switches") +
                         StatusNumber(path, "nonvoluntary_ctxt_switches");
  }
  if (tasks != nullptr) closedir(tasks);
  std::ifstream stat("/proc/self/stat");
  std::string text;
  std::getline(stat, text);
  unsigned long user = 0;
  unsigned long system = 0;
  const size_t name_end = text.rfind(')');
  if (name_end != std::string::npos &&
      sscanf(text.c_str() + name_end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
             &user, &system) == 2) {
    activity.cpu_ticks = static_cast<double>(user + system);
  }
  return activity;
}

double MedianForkUs() {
  std::vector<double> us;
  for (int i = 0; i < 300; ++i) {
    const auto began = Clock::now();
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    us.push_back(1000 * MsSince(began));
    waitpid(pid, nullptr, 0);
  }
  return Median(us);
}

// Measures in a process of its own and prints "name unit value" lines.
int MeasureOnce(const char* library, int idle_seconds) {
  const double rss_before_kb = StatusNumber("/proc/self/status", "VmRSS");
  const double fork_before_us = idle_seconds > 0 ? MedianForkUs() : 0;
  const auto began = Clock::now();
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    fprintf(stderr, "embed_cost: %s\n", dlerror());
    return 1;
  }
  const double load_ms = MsSince(began);
  const auto start =
      reinterpret_cast<decltype(&jobscope_server_start)>(dlsym(handle, "jobscope_server_start"));
  if (start == nullptr) {
    fprintf(stderr, "embed_cost: %s exports no jobscope_server_start\n", library);
    return 1;
  }
  jobscope_server_options options;
  memset(&options, 0, sizeof(options));
  options.size = sizeof(options);
  options.address = "127.0.0.1:0";
  char error[1024] = "";
  const auto start_began = Clock::now();
  if (start(&options, nullptr, 0, error, sizeof(error)) != JOBSCOPE_OK) {
    fprintf(stderr, "embed_cost: %s\n", error);
    return 1;
  }
  printf("load ms %f\nstart ms %f\n", load_ms, MsSince(start_began));
  printf("rss_added MiB %f\n", (StatusNumber("/proc/self/status", "VmRSS") - rss_before_kb) / 1024);
  printf("anonymous MiB %f\n", StatusNumber("/proc/self/status", "RssAnon") / 1024);
  if (idle_seconds > 0) {
    const Activity before = ReadActivity();
    std::this_thread::sleep_for(std::chrono::seconds(idle_seconds));
    const Activity after = ReadActivity();
    printf("threads_added threads %f\n", after.threads - 1);
    printf("idle_switches 1/s %f\n", (after.switches - before.switches) / idle_seconds);
    printf("idle_cpu ms/s %f\n", (after.cpu_ticks - before.cpu_ticks) * 1000.0 /
                                     static_cast<double>(sysconf(_SC_CLK_TCK)) / idle_seconds);
    printf("fork_before us %f\nfork_with_server us %f\n", fork_before_us, MedianForkUs());
  }
  fflush(stdout);
  return 0;
}

struct Figure {
  std::string unit;
  std::vector<double> values;
};
using Figures = std::map<std::string, Figure>;

// Adds the figures of one fresh process to `figures`.
bool MeasureInFreshProcess(const std::string& self, const std::string& library, int idle_seconds,
                           Figures* figures) {
  int out[2];
  if (pipe(out) != 0) return false;
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(out[1], STDOUT_FILENO);
    close(out[0]);
    close(out[1]);
    const std::string idle = std::to_string(idle_seconds);
    execl(self.c_str(), self.c_str(), "--once", library.c_str(), idle.c_str(), nullptr);
    _exit(127);
  }
  close(out[1]);
  FILE* lines = fdopen(out[0], "r");
  char name[64];
  char unit[64];
  double value = 0;
  while (lines != nullptr && fscanf(lines, "%63s %63s %lf", name, unit, &value) == 3) {
    (*figures)[name].unit = unit;
    (*figures)[name].values.push_back(value);
  }
  if (lines != nullptr) fclose(lines);
  int status = 0;
  return waitpid(pid, &status, 0) == pid && status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && strcmp(argv[1], "--once") == 0) return MeasureOnce(argv[2], atoi(argv[3]));
  struct stat file = {};
  if (argc < 2 || argc > 4 || stat(argv[1], &file) != 0) {
    fprintf(stderr, "usage: embed_cost LIBRARY [PROCESSES [IDLE_SECONDS]]\n");
    return 2;
  }
  const int processes = argc > 2 ? atoi(argv[2]) : 9;
  const int idle_seconds = argc > 3 ? atoi(argv[3]) : 5;
  char* const self = realpath("/proc/self/exe", nullptr);
  // dlopen() would search for a bare name elsewhere.
  char* const library = realpath(argv[1], nullptr);
  Figures figures;
  bool ok = true;
  for (int i = 0; ok && i < processes; ++i) {
    ok = MeasureInFreshProcess(self, library, idle_seconds, &figures);
  }
  free(self);
  free(library);
  if (!ok) return 1;
  figures["library"] = {"MiB", {static_cast<double>(file.st_size) / (1 << 20)}};
  const char* separator = "";
  printf("{\"results\": [");
  for (const auto& [name, figure] : figures) {
    printf(
        "%s\n {\"name\": \"%s\", \"unit\": \"%s\", \"better\": \"lower\", \"stock\": [], \"own\": "
        "[",
        separator, name.c_str(), figure.unit.c_str());
    for (size_t i = 0; i < figure.values.size(); ++i) {
      printf("%s%.3f", i == 0 ? "" : ", ", figure.values[i]);
    }
    printf("]}");
    separator = ",";
  }
  printf("\n]}\n");
  return 0;
}
