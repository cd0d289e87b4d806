/* SPDX-License-Identifier: Apache-2.0
 *
 * What the archives inside libjobscope.so need in order to live in somebody else's process.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* Debian's c-ares was built against glibc 2.36 and draws query ids from arc4random_buf(): the only
 * reference newer than glibc 2.34. Defined here, hidden, so that the library also loads on RHEL 9
 * and Ubuntu 22.04. */
__attribute__((visibility("hidden"))) void arc4random_buf(void* buffer, size_t size) {
  unsigned char* next = buffer;
  while (size > 0) {
    const ssize_t got = getrandom(next, size, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      abort(); /* a kernel older than 3.17, on which this glibc does not run either */
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

/* OpenSSL frees its tables in an exit handler. The server's threads live until the process is gone,
 * so a TLS connection that is in use then would read freed memory. Decided at load, before anything
 * could initialise this copy of OpenSSL. */
__attribute__((constructor)) static void KeepOpenSslAtExit(void) {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}
