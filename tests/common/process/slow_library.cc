// SPDX-License-Identifier: Apache-2.0
//
// A library whose constructor says that it runs, and waits until it may end.
#include <unistd.h>

#include <cstdlib>

__attribute__((constructor)) static void WaitForTheTest() {
  char byte = 0;
  const char* const begun = std::getenv("JOBSCOPE_TEST_BEGUN_FD");
  const char* const gate = std::getenv("JOBSCOPE_TEST_GATE_FD");
  if (begun == nullptr || gate == nullptr) return;
  if (write(std::atoi(begun), &byte, 1) != 1 || read(std::atoi(gate), &byte, 1) != 1) std::abort();
}
