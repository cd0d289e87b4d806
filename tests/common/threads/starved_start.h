// SPDX-License-Identifier: Apache-2.0
//
// Threads that wait for a processor before they run anything of ours. Of one source of a program
// that is linked with -Wl,--wrap=pthread_create.
#ifndef TESTS_COMMON_THREADS_STARVED_START_H_
#define TESTS_COMMON_THREADS_STARVED_START_H_

#include <pthread.h>
#include <sched.h>

#include <memory>
#include <optional>
#include <utility>

#include "tests/common/threads/starved.h"

namespace jobscope {

// Where StartWorkerThread's threads starve. Not thread-safe.
inline std::optional<cpu_set_t> starved_start;

struct StarvedStart {
  cpu_set_t processor;
  void* (*body)(void*);
  void* argument;

  static void* Run(void* start) {
    const std::unique_ptr<StarvedStart> own(static_cast<StarvedStart*>(start));
    ComputeStarved(own->processor);
    return own->body(own->argument);
  }
};

}  // namespace jobscope

extern "C" {

int __real_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                          void* argument) {
  using jobscope::StarvedStart;
  if (!jobscope::starved_start.has_value()) {
    return __real_pthread_create(thread, attributes, body, argument);
  }
  auto start =
      std::make_unique<StarvedStart>(StarvedStart{*jobscope::starved_start, body, argument});
  const int error = __real_pthread_create(thread, attributes, &StarvedStart::Run, start.get());
  if (error == 0) (void)start.release();
  return error;
}

}  // extern "C"

#endif  // TESTS_COMMON_THREADS_STARVED_START_H_
