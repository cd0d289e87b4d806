// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/calls/python_options.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/process/own_environment.h"

namespace jobscope::python {
namespace {

template <typename T>
void Read(const Variables& variables, std::string_view name, int64_t least, int64_t most, T* value,
          std::vector<std::string>* faults) {
  const auto found = variables.find(name);
  if (found == variables.end() || found->second.empty()) return;
  const std::string& text = found->second;
  int64_t number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= least && number <= most) {
    *value = static_cast<T>(number);
    return;
  }
  faults->push_back(absl::StrCat(std::string(name), "=", text, " is not a number from ", least,
                                 " to ", most, ": ", *value, " is used"));
}

}  // namespace

TracerOptions TracerOptions::FromEnvironment() {
  TracerOptions options;
  constexpr std::string_view kHz = "JOBSCOPE_PYTHON_SAMPLE_HZ";
  constexpr std::string_view kMinUs = "JOBSCOPE_PYTHON_MIN_US";
  constexpr std::string_view kMaxCalls = "JOBSCOPE_PYTHON_MAX_CALLS";
  const Variables variables = OwnVariables({kHz, kMinUs, kMaxCalls});
  Read(variables, kHz, 1, 1000, &options.sample_hz, &options.faults);
  Read(variables, kMinUs, 0, 1'000'000, &options.min_call_us, &options.faults);
  Read(variables, kMaxCalls, 1, 100'000'000, &options.max_calls, &options.faults);
  return options;
}

}  // namespace jobscope::python
