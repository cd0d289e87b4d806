// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_NO_THREADS_H_
#define TESTS_NO_THREADS_H_

#include <sys/resource.h>
#include <unistd.h>

namespace jobscope {

// From now on this process can start no thread. For death tests: root becomes nobody, because the
// limit does not hold for root.
inline void AllowNoThreads() {
  alarm(60);  // whatever waits for a thread would wait for ever
  const rlimit none{0, 0};
  const uid_t nobody = 65534;
  if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(2);
  if (geteuid() == 0 && setresuid(nobody, nobody, nobody) != 0) _exit(2);
}

}  // namespace jobscope

#endif  // TESTS_NO_THREADS_H_
