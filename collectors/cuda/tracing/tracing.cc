// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing/tracing.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectors/cuda/tracing/state_log.h"
#include "common/clock/monotonic.h"

namespace jobscope::cuda {

Tracing::Tracing(const CuptiApi* api, const Options& options, std::shared_ptr<DetachedCaller> calls)
    : calls_(std::move(calls)), attachment_(std::make_shared<Attachment>(api, options)) {}

Tracing::~Tracing() { Abandon(); }

bool Tracing::Run(absl::Duration timeout, const std::function<void(Attachment*)>& call) {
  const absl::Time deadline = SteadyNow() + timeout;
  if (!calls_->Wait(timeout)) return false;
  call_posted_ = SteadyNow();
  const std::shared_ptr<Attachment> attachment = attachment_;
  return calls_->Run("CUPTI", std::max(deadline - SteadyNow(), absl::Milliseconds(1)),
                     [attachment, call] {
                       call(attachment.get());
                       if (attachment->abandoned) attachment->Undo();
                     });
}

absl::Status Tracing::Begin(absl::Duration timeout) {
  StateLog::Get().Clear();
  attached_ = true;
  if (!Run(timeout, [](Attachment* attachment) { attachment->Begin(); })) {
    Abandon();
    return absl::DeadlineExceededError(HangReason());
  }
  attached_ = attachment_->status().ok();
  return attachment_->status();
}

void Tracing::FlushSoon() {
  if (calls_->busy()) return;
  const std::shared_ptr<Attachment> attachment = attachment_;
  call_posted_ = SteadyNow();
  (void)calls_->Post("CUPTI", [attachment] {
    attachment->Flush(/*forced=*/false);
    if (attachment->abandoned) attachment->Undo();
  });
}

absl::Duration Tracing::busy_for() const {
  return calls_->busy() ? SteadyNow() - call_posted_ : absl::ZeroDuration();
}

bool Tracing::Flush(absl::Duration timeout) {
  return Run(timeout, [](Attachment* attachment) { attachment->Flush(/*forced=*/false); });
}

bool Tracing::Start(absl::Duration timeout) {
  const absl::Time begin = SteadyNow() + timeout;
  return Run(timeout, [begin](Attachment* attachment) { attachment->Start(begin); });
}

bool Tracing::End(bool all_came, absl::Duration timeout) {
  return Run(timeout, [all_came](Attachment* attachment) { attachment->End(all_came); });
}

bool Tracing::Detach(bool finalize, absl::Duration wait, absl::Duration timeout) {
  if (!Run(timeout,
           [finalize, wait](Attachment* attachment) { attachment->Detach(finalize, wait); })) {
    return false;
  }
  attached_ = false;
  return true;
}

void Tracing::Abandon() {
  if (!std::exchange(attached_, false)) return;
  attachment_->abandoned = true;
  // A call that was about to return may have missed the flag; then this one reverts.
  const std::shared_ptr<Attachment> attachment = attachment_;
  (void)calls_->Wait(absl::Milliseconds(20));
  (void)calls_->Post("CUPTI", [attachment] { attachment->Undo(); });
}

uint64_t Tracing::dropped() const { return attachment_->dropped(); }

bool Tracing::finalized() const { return attachment_->finalized(); }

std::string Tracing::FatalError() const { return StateLog::Get().fatal_text(); }

std::vector<std::string> Tracing::TakeWarnings() {
  std::vector<std::string> warnings = StateLog::Get().Take();
  if (calls_->busy()) return warnings;
  for (std::string& text : attachment_->TakeWarnings()) {
    if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) {
      warnings.push_back(std::move(text));
    }
  }
  return warnings;
}

std::string Tracing::HangReason() const {
  return absl::StrCat(attachment_->call(),
                      " has not returned; GPU records that had not arrived by then are missing");
}

}  // namespace jobscope::cuda
