// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing/call_report.h"

#include <algorithm>
#include <cstring>

#include "collectors/cuda/libraries/result_text.h"

namespace jobscope::cuda {

std::string CallReport::Failure(const char* name, CuptiResult result,
                                std::string_view owner) const {
  FailureContext context;
  context.call = name;
  context.cupti_version = api_->version;
  context.driver_version = driver_version_;
  context.old_owner = owner;
  // For most results CUPTI knows only their names.
  const char* message = nullptr;
  const char* its_name = nullptr;
  if (api_->cuptiGetErrorMessage != nullptr &&
      api_->cuptiGetErrorMessage(result, &message) == kCuptiSuccess && message != nullptr &&
      api_->cuptiGetResultString(result, &its_name) == kCuptiSuccess && its_name != nullptr &&
      std::strcmp(message, its_name) != 0) {
    context.own_message = message;
    // Some messages end in an empty line.
    context.own_message =
        context.own_message.substr(0, context.own_message.find_last_not_of(" \n") + 1);
  }
  return FailureText(result, context);
}

void CallReport::WarnOnce(std::string text) {
  if (std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end()) {
    warnings_.push_back(std::move(text));
  }
}

}  // namespace jobscope::cuda
