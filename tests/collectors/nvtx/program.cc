// SPDX-License-Identifier: Apache-2.0
//
// A program with NVTX ranges in it. It says "up" (and where it listens, if it serves itself), works
// until its standard input ends, and says how many rounds it made.
//
//   nvtx_program [PLUGIN]     PLUGIN: a library with NVTX ranges of its own, loaded by dlopen
//
// Built with SERVES it is linked with us: it has the server in it, and JOBSCOPE_RECORD_NVTX.
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/collectors/nvtx/mini_nvtx.h"

#ifdef SERVES
const char* Serve();  // program_serves.cc
#endif

namespace {

nvtxDomainHandle_t domain;

void Load(int64_t round) {
#ifdef REAL_NVTX
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.category = 3;
  attributes.colorType = NVTX_COLOR_ARGB;
  attributes.color = 0xff00a0ff;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  attributes.payload.llValue = round;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = "load";
#else
  abi::EventAttributes attributes = {};
  attributes.version = 3;
  attributes.size = sizeof(attributes);
  attributes.category = 3;
  attributes.color_type = abi::kColorArgb;
  attributes.color = 0xff00a0ff;
  attributes.payload_type = abi::kPayloadInt64;
  attributes.payload.int64_value = round;
  attributes.message_type = abi::kMessageAscii;
  attributes.message.ascii = "load";
#endif
  nvtxDomainRangePushEx(domain, &attributes);
  usleep(200);
  nvtxDomainRangePop(domain);
}

// Ends the ranges that the main thread starts.
class Other {
 public:
  Other() : thread_([this] { Run(); }) {}
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
  ~Other() {
    Give(0, /*last=*/true);
    thread_.join();
  }
  // Returns when it is done.
  void Give(nvtxRangeId_t range, bool last = false) {
    std::unique_lock<std::mutex> lock(mutex_);
    range_ = range;
    last_ = last;
    given_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !given_; });
  }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    do {
      changed_.wait(lock, [this] { return given_; });
      nvtxRangePushA("on another thread");
      nvtxRangePop();
      nvtxRangeEnd(range_);
      given_ = false;
      changed_.notify_all();
    } while (!last_);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  nvtxRangeId_t range_ = 0;
  bool given_ = false;
  bool last_ = false;
  std::thread thread_;
};

bool InputEnded() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  if (poll(&input, 1, 0) <= 0) return false;
  char byte;
  return read(STDIN_FILENO, &byte, 1) <= 0;
}

}  // namespace

int main(int argc, char** argv) {
  // NVTX is used before there is a server, as libraries do that are loaded early.
  nvtxRangePushA("whole program");
  domain = nvtxDomainCreateA("loader");
  nvtxDomainNameCategoryA(domain, 3, "io");
  void (*plugin_work)() = nullptr;
  if (argc > 1) {
    void* const plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    plugin_work = reinterpret_cast<void (*)()>(dlsym(plugin, "PluginWork"));
  }
#ifdef SERVES
  printf("up %s\n", Serve());
#else
  printf("up\n");
#endif
  fflush(stdout);
  Other other;
  int64_t rounds = 0;
  for (; !InputEnded(); ++rounds) {
    nvtxRangePushA("round");
    Load(rounds);
    nvtxMarkA("loaded");
    other.Give(nvtxRangeStartA("request"));
    if (plugin_work != nullptr) plugin_work();
    nvtxRangePop();
  }
  nvtxRangePop();
  printf("%lld\n", static_cast<long long>(rounds));
  return 0;
}
