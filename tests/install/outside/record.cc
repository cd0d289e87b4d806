// SPDX-License-Identifier: Apache-2.0
#include <jobscope/trace.h>

#include <cstdio>

extern "C" void RecordInC(void);

int main() {
  jobscope::SetThreadName("outside");
  for (int step = 0; step < 3; ++step) {
    JOBSCOPE_STEP("train", step);
    JOBSCOPE_SCOPE("load", "bytes", 4096, "file", "a.bin");
    JOBSCOPE_COUNTER("loss", 0.5);
    RecordInC();
  }
  std::puts("recorded");
  return 0;
}
