/* SPDX-License-Identifier: Apache-2.0 */
/* A library whose constructor keeps the loader's lock: it writes a byte to the first pipe of
 * JOBSCOPE_TEST_PIPES ("4 7"), then waits until the other end of the second one is closed. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void Construct(void) {
  const char* const pipes = getenv("JOBSCOPE_TEST_PIPES");
  int here = -1;
  int until = -1;
  if (pipes == NULL || sscanf(pipes, "%d %d", &here, &until) != 2) return;
  char byte = 0;
  if (write(here, &byte, 1) != 1) return;
  while (read(until, &byte, 1) > 0) {
  }
}
