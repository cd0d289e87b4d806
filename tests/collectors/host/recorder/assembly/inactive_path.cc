// SPDX-License-Identifier: Apache-2.0
//
// Compiled, disassembled and checked by check_inactive_path.py; never linked.
#include "jobscope/trace.h"

extern "C" {

void Work();

void InactiveInstant() { JOBSCOPE_INSTANT("instant"); }

void InactiveInstantWithArgs(int n, const char* text) {
  JOBSCOPE_INSTANT("instant", "n", n, "text", text);
}

void InactiveCounter(double sample) { JOBSCOPE_COUNTER("counter", sample); }

void InactiveScope() {
  JOBSCOPE_SCOPE("scope");
  Work();
}

void InactiveStep(long number) {
  JOBSCOPE_STEP("step", number);
  Work();
}

void InactiveScopeWithArgs(int n, const char* text) {
  JOBSCOPE_SCOPE("scope", "n", n, "text", text);
  Work();
}

}  // extern "C"
