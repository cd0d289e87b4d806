// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/stacks/thread_ids.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <initializer_list>

namespace jobscope::python {

// The kernel's id of a thread's CPU clock encodes the thread's id (its complement, above three flag
// bits). The C library reads it from the thread's descriptor, whose page is checked first: a thread
// may have ended without Python's knowledge.
int64_t TidOfPthread(uint64_t pthread) {
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // The id is in the descriptor's first 1 KiB.
  for (const uint64_t address : {pthread, pthread + 1024}) {
    unsigned char resident = 0;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it is an address, as Python tells it.
    if (mincore(reinterpret_cast<void*>(address & ~(page_bytes - 1)), 1, &resident) != 0) return 0;
  }
  clockid_t clock = 0;
  if (pthread_getcpuclockid(static_cast<pthread_t>(pthread), &clock) != 0) return 0;
  return ~(static_cast<int64_t>(clock) >> 3);
}

}  // namespace jobscope::python
