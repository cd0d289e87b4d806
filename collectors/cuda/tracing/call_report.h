// SPDX-License-Identifier: Apache-2.0
//
// Formats failures and collects warnings of one session's calls into CUPTI.
#ifndef COLLECTORS_CUDA_TRACING_CALL_REPORT_H_
#define COLLECTORS_CUDA_TRACING_CALL_REPORT_H_

#include <atomic>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectors/cuda/libraries/cupti_api.h"

namespace jobscope::cuda {

// Names the current call, formats failures and collects warnings. Used by the thread that makes the
// calls; `call` may be read by any thread.
class CallReport {
 public:
  CallReport(const CuptiApi* api, int driver_version)
      : api_(api), driver_version_(driver_version) {}
  CallReport(const CallReport&) = delete;
  CallReport& operator=(const CallReport&) = delete;

  // Returns what failed, why, and what to do. `owner`: the current subscriber, if known.
  std::string Failure(const char* name, CuptiResult result, std::string_view owner = {}) const;
  void Warn(std::string text) { warnings_.push_back(std::move(text)); }
  // Warns unless the same text was added since the last Take.
  void WarnOnce(std::string text);
  std::vector<std::string> TakeWarnings() { return std::exchange(warnings_, {}); }

  std::atomic<const char*> call{""};  // the current or last call

 private:
  const CuptiApi* const api_;
  const int driver_version_;
  std::vector<std::string> warnings_;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_CALL_REPORT_H_
