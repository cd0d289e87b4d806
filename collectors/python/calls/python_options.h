// SPDX-License-Identifier: Apache-2.0
#ifndef COLLECTORS_PYTHON_CALLS_PYTHON_OPTIONS_H_
#define COLLECTORS_PYTHON_CALLS_PYTHON_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace jobscope::python {

struct TracerOptions {
  int sample_hz = 100;              // level 1
  int64_t min_call_us = 10;         // level 2: shorter calls are not in the trace
  int64_t max_calls = 1'000'000;    // level 2: then it disables itself
  std::vector<std::string> faults;  // errors in the environment; the defaults apply there

  // JOBSCOPE_PYTHON_SAMPLE_HZ (1 to 1,000), JOBSCOPE_PYTHON_MIN_US (0 to 1,000,000),
  // JOBSCOPE_PYTHON_MAX_CALLS (1 to 100,000,000).
  static TracerOptions FromEnvironment();
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_CALLS_PYTHON_OPTIONS_H_
