// SPDX-License-Identifier: Apache-2.0
//
// The public header in the oldest language that it supports, and the newest, under warnings that
// are errors.
#include <string>
#include <vector>

#include "jobscope/steps.h"
#include "jobscope/trace.h"

#if __cplusplus >= 201703L
#include "jobscope/detail/ticks.h"  // both in one file, as the server and the benches have them
uint64_t UsesTicks() { return jobscope::detail::ReadTicks(true); }
#endif

namespace {

template <typename T>
struct InTemplate {
  static int Function(T value) {
    JOBSCOPE_SCOPE("template", "value", value);
    return 0;
  }
};

}  // namespace

int UsesTrace(int n, const std::string& text) {
  JOBSCOPE_SCOPE("scope");
  JOBSCOPE_SCOPE("two on a line");
  JOBSCOPE_SCOPE("of them");
  JOBSCOPE_SCOPE_AT(3, "with", "n", n, "text", text, "double", 1.5, "literal", "x");
  JOBSCOPE_SCOPE_COARSE("coarse");
  JOBSCOPE_INPUT_WAIT("wait");
  JOBSCOPE_STEP("step", n);
  if (n > 0)
    JOBSCOPE_INSTANT("instant");
  else
    JOBSCOPE_COUNTER("counter", n);
  const auto lambda = [&] { JOBSCOPE_SCOPE("lambda", "n", n); };
  lambda();
  const jobscope::AsyncId id = jobscope::AsyncBegin("async");
  jobscope::AsyncEnd(id);
  jobscope::FlowIn(jobscope::FlowOut());
  jobscope::SetThreadName("thread");
  int sum = 0;
  const std::vector<int> batches(2, n);
  for (const auto& step : jobscope::Steps(batches, "train", n)) sum += step.batch;
  for (const auto& step : jobscope::Steps([&] { return sum-- > 0 ? &n : nullptr; })) {
    if (step.number > n) break;
  }
  return InTemplate<int>::Function(n);
}
