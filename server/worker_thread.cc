// SPDX-License-Identifier: Apache-2.0
#include "server/worker_thread.h"

#include <pthread.h>
#include <signal.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace jobscope {
namespace {

struct Launch {
  std::string name;
  absl::AnyInvocable<void()> body;
};

void* RunLaunch(void* argument) {
  std::unique_ptr<Launch> launch(static_cast<Launch*>(argument));
  pthread_setname_np(pthread_self(), launch->name.c_str());
  launch->body();
  return nullptr;
}

}  // namespace

absl::Status StartWorkerThread(const char* name, absl::AnyInvocable<void()> body) {
  auto launch = std::make_unique<Launch>();
  launch->name = std::string(name).substr(0, 15);
  launch->body = std::move(body);

  // A thread inherits its creator's mask, so the mask is changed around the creation.
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
    sigdelset(&blocked, fault);
  }
  sigset_t previous;
  pthread_sigmask(SIG_SETMASK, &blocked, &previous);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, &RunLaunch, launch.get());
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (error != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("can't start the thread ", name, ": ",
                                                     strerror(error),
                                                     "; raise the limit on processes (ulimit -u)"));
  }
  (void)launch.release();  // the thread owns it
  return absl::OkStatus();
}

}  // namespace jobscope
