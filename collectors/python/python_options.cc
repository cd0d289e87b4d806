// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/python_options.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace jobscope::python {
namespace {

template <typename T>
void Read(const char* name, int64_t least, int64_t most, T* value,
          std::vector<std::string>* faults) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return;
  int64_t number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= least && number <= most) {
    *value = static_cast<T>(number);
    return;
  }
  faults->push_back(absl::StrCat(name, "=", text, " is not a number from ", least, " to ", most,
                                 ": ", *value, " is used"));
}

}  // namespace

TracerOptions TracerOptions::FromEnvironment() {
  TracerOptions options;
  Read("JOBSCOPE_PYTHON_SAMPLE_HZ", 1, 1000, &options.sample_hz, &options.faults);
  Read("JOBSCOPE_PYTHON_MIN_US", 0, 1'000'000, &options.min_call_us, &options.faults);
  Read("JOBSCOPE_PYTHON_MAX_CALLS", 1, 100'000'000, &options.max_calls, &options.faults);
  return options;
}

}  // namespace jobscope::python
