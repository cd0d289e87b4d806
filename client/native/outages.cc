// SPDX-License-Identifier: Apache-2.0
#include "client/native/outages.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/worker/worker_outcome.h"
#include "common/clock/monotonic.h"

namespace jobscope {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(100);
constexpr absl::Duration kMaxBackoff = absl::Seconds(2);
// Time for further attempts that is left after a loss, even if the silence before it has used up
// the resume timeout; less only if that timeout is shorter. A recovered worker answers at once.
constexpr absl::Duration kLeastResumeTime = absl::Seconds(2);

}  // namespace

Outages::Outages(absl::Duration resume_timeout, uint32_t seed)
    : resume_timeout_ns_(DurationNs(resume_timeout)), backoff_(kFirstBackoff), random_(seed) {}

bool Outages::Fail(const grpc::Status& why, uint64_t now_ns, uint64_t heard_ns) {
  last_failure_ = ReasonOf(why);
  if (std::exchange(ongoing_, true)) return false;
  since_ns_ = now_ns;
  silent_since_ns_ = heard_ns;
  cause_ = why;
  return true;
}

absl::Duration Outages::NextBackoff() {
  // Plus up to a quarter at random: the same outage may have disconnected a thousand workers.
  const double spread = std::uniform_real_distribution<double>(1, 1.25)(random_);
  const absl::Duration backoff = backoff_ * spread;
  backoff_ = std::min(backoff_ * 2, kMaxBackoff);
  return backoff;
}

void Outages::ResetBackoff() { backoff_ = kFirstBackoff; }

std::optional<absl::Duration> Outages::End(uint64_t now_ns) {
  if (!std::exchange(ongoing_, false)) return std::nullopt;
  const absl::Duration length = absl::Nanoseconds(static_cast<int64_t>(now_ns - since_ns_));
  total_ += length;
  ++count_;
  return length;
}

uint64_t Outages::GiveUpAt(uint64_t planned_end_ns) const {
  if (!ongoing_) return kNeverNs;
  // Silence before the loss counts; but there is always one more attempt.
  return std::max({silent_since_ns_ + resume_timeout_ns_, planned_end_ns + resume_timeout_ns_,
                   since_ns_ + std::min(resume_timeout_ns_, DurationNs(kLeastResumeTime))});
}

grpc::Status Outages::WhyGivenUp() const {
  const bool as_before = last_failure_ == ReasonOf(cause_);
  return grpc::Status(cause_.error_code(),
                      absl::StrCat("could not be reached again", as_before ? "" : ": ",
                                   as_before ? "" : last_failure_));
}

grpc::Status Outages::WithCause(const grpc::Status& status) const {
  if (!ongoing_) return status;
  return grpc::Status(status.error_code(),
                      absl::StrCat(ReasonOf(cause_), "; then ", ReasonOf(status)));
}

}  // namespace jobscope
