/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines what the archives inside libjobscope.so need to load with a glibc older than theirs.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* Debian's c-ares was built with glibc 2.36 and gets query ids from arc4random_buf(), its only
 * reference newer than glibc 2.34. This hidden definition lets the library also load on RHEL 9 and
 * Ubuntu 22.04. */
void FillWithRandomBytes(void* buffer, size_t size) __asm__("arc4random_buf")
    __attribute__((visibility("hidden")));

void FillWithRandomBytes(void* buffer, size_t size) {
  unsigned char* next = buffer;
  while (size > 0) {
    const ssize_t got = getrandom(next, size, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      abort(); /* a kernel older than 3.17, which this glibc does not support either */
    }
    next += got;
    size -= (size_t)got;
  }
}

__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t value;
  arc4random_buf(&value, sizeof(value));
  return value;
}
