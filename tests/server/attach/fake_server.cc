// SPDX-License-Identifier: Apache-2.0
//
// A libjobscope.so that only tells what was asked of it, in lines of the file FAKE_SERVER_LOG; with
// it the handing over of injections is tested, and what the attach library passes on. With
// FAKE_SERVER_SLOW it listens, and takes its time. As a plugin (FAKE_PLUGIN) it is a library whose
// constructor calls NVTX's entry point.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jobscope/jobscope_c.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

#if defined(FAKE_PLUGIN)

EXPORTED int plugin_answer;
int plugin_answer = -1;

namespace {
__attribute__((constructor)) void Inject() {
  void* library = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_LAZY);
  if (library == nullptr) return;
  const auto entry = reinterpret_cast<int (*)(void*)>(dlsym(library, "InitializeInjectionNvtx2"));
  if (entry != nullptr) plugin_answer = entry(nullptr);
}
}  // namespace

#else

namespace {
void Log(const char* what, const char* detail) {
  char line[256];
  const int length = snprintf(line, sizeof(line), "%s %s\n", what, detail);
  const int fd = open(getenv("FAKE_SERVER_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, line, static_cast<size_t>(length)) != length) abort();
  close(fd);
}

int listener = -1;

// As on a machine that does other things meanwhile.
void ListenSlowly() {
  const int fd = listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd, any, length) != 0) abort();
  if (listen(fd, 1) != 0) abort();
  usleep(300'000);
}
}  // namespace

EXPORTED void jobscope_forked_child() { close(listener); }

EXPORTED int jobscope_server_start(const jobscope_server_options* options, char*, size_t, char*,
                                   size_t) {
  if (getenv("FAKE_SERVER_SLOW") != nullptr) ListenSlowly();
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  Log("start", options->address);
  Log("thread", name);
  Log("signals", sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGCHLD) == 1 &&
                         sigismember(&mask, SIGSEGV) == 0
                     ? "blocked"
                     : "open");
  return 0;
}

EXPORTED int jobscope_nvtx_initialize(void* get_export_table);
int jobscope_nvtx_initialize(void* get_export_table) {
  Log("nvtx", get_export_table == nullptr ? "null" : "table");
  return 17;
}

EXPORTED int jobscope_nvtx_initialize_extension(void* module);
int jobscope_nvtx_initialize_extension(void* /*module*/) {
  Log("extension", "");
  return 18;
}

#endif
