// SPDX-License-Identifier: Apache-2.0
//
// A worker that loads a plugin whose constructor calls the library, while another thread, as that
// of `jobscope run`, starts the server and waits for the loader:
//   loading_worker start|stop|running|capture PLUGIN LOGDIR
// start: the constructor starts the server; stop: it stops the server; running: it asks whether one
// runs; capture: it starts a capture. Exits with 0 if both threads' calls return, and the other
// thread's start succeeds.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "jobscope/jobscope_c.h"

namespace {

std::atomic<long> starter_tid{0};
std::thread starter;
int starter_code = -1;
std::string way;
std::string logdir;

int StartServer() {
  jobscope_server_options options = {};
  options.size = sizeof(options);
  options.address = "127.0.0.1:0";
  char error[512] = "";
  const int code = jobscope_server_start(&options, nullptr, 0, error, sizeof(error));
  std::fprintf(stderr, "start: %d %s\n", code, error);
  return code;
}

bool Sleeps(long tid) {
  std::ifstream stat("/proc/self/task/" + std::to_string(tid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.compare(name_end, 3, ") S") == 0;
}

// Waits for the loader's lock, if it has slept for so long.
void AwaitSleepOfStarter() {
  for (int asleep = 0; asleep < 200;) {
    asleep = starter_tid != 0 && Sleeps(starter_tid) ? asleep + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

// Called by the plugin: this thread holds the loader's lock.
extern "C" __attribute__((visibility("default"))) void OnPluginLoaded() {
  starter = std::thread([] {
    starter_tid = syscall(SYS_gettid);
    starter_code = StartServer();
  });
  AwaitSleepOfStarter();
  if (way == "start") {
    StartServer();
    return;
  }
  if (way == "stop") {
    std::fprintf(stderr, "stop: %d\n", jobscope_server_stop());
    return;
  }
  if (way == "running") {
    std::fprintf(stderr, "running: %d\n", jobscope_server_running());
    return;
  }
  char error[512] = "";
  const int code = jobscope_capture_start(logdir.c_str(), nullptr, error, sizeof(error));
  std::fprintf(stderr, "capture: %d %s\n", code, error);
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  way = argv[1];
  logdir = argv[3];
  alarm(100);  // the threads may wait for each other for ever
  if (dlopen(argv[2], RTLD_NOW) == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  starter.join();
  return starter_code;
}
