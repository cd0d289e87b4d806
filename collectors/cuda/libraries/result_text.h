// SPDX-License-Identifier: Apache-2.0
//
// What a result of CUPTI means to the person who asked for a capture.
#ifndef COLLECTORS_CUDA_LIBRARIES_RESULT_TEXT_H_
#define COLLECTORS_CUDA_LIBRARIES_RESULT_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "collectors/cuda/libraries/cupti_api.h"

namespace jobscope::cuda {

struct ResultText {
  CuptiResult result;
  std::string_view name;    // as NVIDIA calls it, without "CUPTI_ERROR_"
  std::string_view text;    // what it means in practice
  std::string_view remedy;  // what to do; empty: nothing
};

// Null for results that are not in the table.
const ResultText* FindResultText(CuptiResult result);

// What surrounds a failed call.
struct FailureContext {
  std::string_view call;         // "cuptiSubscribe"
  uint32_t cupti_version = 0;    // 0: not known
  int driver_version = 0;        // as cuDriverGetVersion: 12040 = 12.4; 0: not known
  std::string_view old_owner;    // who is subscribed already, where CUPTI says so
  std::string_view own_message;  // of cuptiGetErrorMessage
};

// One sentence or two: what it means, what to do, and in parentheses the facts for a report.
std::string FailureText(CuptiResult result, const FailureContext& context);

// "12.4", from 12040.
std::string DriverVersionText(int version);

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_LIBRARIES_RESULT_TEXT_H_
