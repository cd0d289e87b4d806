// SPDX-License-Identifier: Apache-2.0
//
// Explains CUPTI results to the user of a capture.
#ifndef COLLECTORS_CUDA_LIBRARIES_RESULT_TEXT_H_
#define COLLECTORS_CUDA_LIBRARIES_RESULT_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "collectors/cuda/libraries/cupti_api.h"

namespace jobscope::cuda {

struct ResultText {
  CuptiResult result;
  std::string_view name;    // NVIDIA's name without "CUPTI_ERROR_"
  std::string_view text;    // practical meaning
  std::string_view remedy;  // what to do; may be empty
};

// Returns null for results that are not in the table.
const ResultText* FindResultText(CuptiResult result);

// Circumstances of a failed call.
struct FailureContext {
  std::string_view call;         // "cuptiSubscribe"
  uint32_t cupti_version = 0;    // 0: unknown
  int driver_version = 0;        // as from cuDriverGetVersion: 12040 = 12.4; 0: unknown
  std::string_view old_owner;    // the current subscriber, if CUPTI names it
  std::string_view own_message;  // from cuptiGetErrorMessage
};

// Returns one or two sentences: the meaning, the remedy, and in parentheses the facts for a bug
// report.
std::string FailureText(CuptiResult result, const FailureContext& context);

// Returns "12.4" for 12040.
std::string DriverVersionText(int version);

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_LIBRARIES_RESULT_TEXT_H_
