// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing/state_log.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/libraries/result_text.h"

namespace jobscope::cuda {

StateLog& StateLog::Get() {
  static auto* const log = new StateLog;
  return *log;
}

void StateLog::OnCallback(uint32_t cbid, const void* data) {
  if (data == nullptr || cbid < kStateFatalError || cbid > kStateWarning) return;
  const auto* const state = static_cast<const StateNotification*>(data);
  const ResultText* const known = FindResultText(state->result);
  std::string what =
      absl::StrCat(state->message == nullptr ? "" : std::string(state->message).substr(0, 300),
                   " (", state->result, known == nullptr ? "" : " ",
                   known == nullptr ? "" : std::string(known->name), ")");
  const MutexLock lock(&mutex_);
  if (cbid == kStateFatalError) {
    if (!fatal()) fatal_text_ = absl::StrCat("CUPTI has failed: ", what);
    fatal_.store(true, std::memory_order_release);
  } else if (texts_.size() < kMaxTexts) {
    texts_.push_back(absl::StrCat("CUPTI reports ",
                                  cbid == kStateWarning ? "a warning" : "an error", ": ", what));
  }
}

std::vector<std::string> StateLog::Take() {
  const MutexLock lock(&mutex_);
  return std::exchange(texts_, {});
}

std::string StateLog::fatal_text() {
  const MutexLock lock(&mutex_);
  return fatal_text_;
}

void StateLog::Clear() {
  const MutexLock lock(&mutex_);
  texts_.clear();
  fatal_text_.clear();
  fatal_.store(false, std::memory_order_release);
}

}  // namespace jobscope::cuda
