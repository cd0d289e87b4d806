// SPDX-License-Identifier: Apache-2.0
//
// The end of a session: what is in flight, the account, what is to be said, leaving CUPTI.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "collectors/cuda/cuda_session.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope::cuda {
namespace {

// A kernel before its launch: more than this share is said.
constexpr double kMaxEarlyShare = 1e-4;
// Later than this behind the end, CUPTI gets no more time to return buffers.
constexpr absl::Duration kLastBuffers = absl::Milliseconds(50);

}  // namespace

uint64_t CudaSession::LaunchesInFlight() const {
  uint64_t count = 0;
  for (const auto& [correlation, known] : correlations_) {
    if (known.launches && !known.has_work && known.call_ticks >= window_.start_ticks &&
        known.call_ticks <= window_.end_ticks && !RecordsGraph(known.call_ticks)) {
      ++count;
    }
  }
  return count;
}

void CudaSession::WaitForWork(absl::Time deadline) {
  while (true) {
    const absl::Duration left = deadline - absl::Now();
    if (!tracing_.Flush(/*forced=*/false, std::max(left, absl::Milliseconds(50)))) {
      GiveUp();
      return;
    }
    (void)ReadBuffers(std::min(std::max(left, absl::Milliseconds(50)), limits_.stop));
    if (LaunchesInFlight() == 0 || absl::Now() >= deadline) return;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

void CudaSession::GiveUp() {
  if (given_up_) return;
  given_up_ = true;
  hang_reason_ = tracing_.HangReason();
  tracing_.Abandon();
  pool_.SetMode(BufferPool::Mode::kIdle);
}

absl::Status CudaSession::Stop(uint64_t end_ticks) {
  if (!started_) {
    if (!given_up_ && !tracing_.End(limits_.end)) GiveUp();
    return absl::OkStatus();  // Report leaves
  }
  started_ = false;
  window_.end_ticks = std::max(window_.start_ticks, std::min(window_.end_ticks, end_ticks));
  const absl::Time begin = absl::Now();
  clock_.AddKnot();
  // First nothing more comes: a buffer with records that are not complete is not given back, and a
  // program that goes on would keep adding such.
  if (!given_up_ && !tracing_.Disable(limits_.end)) GiveUp();
  if (!given_up_) WaitForWork(absl::Now() + limits_.work_in_flight);
  last_flush_ = true;
  const absl::Duration rest = std::max(begin + limits_.stop - absl::Now(), absl::Milliseconds(100));
  if (!given_up_ && !tracing_.End(std::min(rest, limits_.end))) GiveUp();
  const absl::Time last = absl::Now() + kLastBuffers;
  bool all = false;
  do {
    const absl::Duration left = begin + limits_.stop - absl::Now();
    all = ReadBuffers(std::max(left, absl::ZeroDuration()));
    if (!all || given_up_ || pool_.lent() == 0) break;
    absl::SleepFor(absl::Milliseconds(1));
  } while (absl::Now() < last);
  pool_.SetMode(BufferPool::Mode::kIdle);
  // Too many to be read before whoever waits for Stop gives up: counted, as those for scrap are.
  if (!all) CountUnread();
  clock_.AddKnot();
  steps_.Update();
  Emit(UINT64_MAX);
  for (const auto& [device, order] : order_) writer_.WriteOrder(device, order);
  writer_.Flush();
  CloseAccount();
  AddWarnings();
  AppendLoss();
  return absl::OkStatus();
}

void CudaSession::CountUnread() {
  const uint64_t scrap = scrap_records_;
  while (const auto full = pool_.TakeFull()) {
    CountScrap(*full);
    pool_.Free(full->slot);
  }
  unread_records_ = std::exchange(scrap_records_, scrap) - scrap;
}

void CudaSession::CloseAccount() {
  // While a call hangs nobody else may look at what it writes.
  const uint64_t dropped = given_up_ ? 0 : tracing_.dropped();
  const uint64_t refused = writer_.refused();
  if (refused > 0) lost_["store_full"] += refused;
  if (scrap_records_ > 0) lost_["gpu_pool"] += scrap_records_;
  if (unread_records_ > 0) lost_["gpu_unread"] += unread_records_;
  if (dropped > 0) lost_["cupti_dropped"] += dropped;
  attempted_ += dropped + scrap_records_ + unread_records_;
  const uint64_t explained = dropped + scrap_records_ + unread_records_ + lost_without_id_;
  const uint64_t missing = LaunchesInFlight();
  if (missing > explained) {
    lost_[kUnfinished] += missing - explained;
    attempted_ += missing - explained;
  }
  report_.attempted = attempted_;
  report_.outside = outside_;
  report_.events = writer_.appended();
  report_.lost_by_cause = lost_;
}

void CudaSession::AddWarnings() {
  std::vector<std::string>& warnings = report_.warnings;
  for (std::string& text : tracing_.TakeWarnings()) warnings.push_back(std::move(text));
  const auto add = [&](uint64_t count, std::string_view text) {
    if (count > 0) warnings.push_back(absl::StrCat(count, " ", std::string(text)));
  };
  const BufferPool::Counts counts = pool_.TakeCounts();
  add(counts.refused + counts.scrapped,
      "times CUPTI asked for a buffer and all were in use: records were lost; raise "
      "JOBSCOPE_CUDA_BUFFER_MB");
  add(counts.shared, "buffers were shared by several threads: their records are lost, uncounted");
  add(counts.late, "buffers came back after the end: their records are not in the trace");
  add(counts.foreign, "buffers came back that are not ours");
  add(unreadable_buffers_, "buffers could not be read to their end");
  for (const auto& [kind, count] : unknown_kinds_) {
    warnings.push_back(absl::StrCat(count, " records of CUPTI's kind ", kind, " were left out"));
  }
  add(clock_.steps(),
      "times the system clock was set during the capture: times of GPU events are "
      "off around these instants");
  EventWriter::Order all;
  for (const auto& [device, order] : order_) {
    all.launches += order.launches;
    all.early += order.early;
  }
  if (static_cast<double>(all.early) > static_cast<double>(all.launches) * kMaxEarlyShare) {
    warnings.push_back(absl::StrCat(all.early, " of ", all.launches,
                                    " kernels start before the call that launched them: the GPU's "
                                    "clock is off"));
  }
  if (api_->version >= kCupti14_0) {
    report_.state = "degraded";
    report_.reason = absl::StrCat("CUPTI ", CuptiVersionText(api_->version),
                                  " is newer than the versions that this server was tested with");
  }
  if (std::string fatal = tracing_.FatalError(); !fatal.empty()) {
    report_.state = "degraded";
    report_.reason = std::move(fatal);
  }
  if (given_up_) {
    report_.state = "degraded";
    report_.reason = hang_reason_;
  }
}

void CudaSession::AppendLoss() {
  if (report_.lost_by_cause.empty()) return;
  v1::Loss loss;
  loss.set_collector("cuda");
  for (const auto& [cause, events] : report_.lost_by_cause) {
    v1::LossByCause* const entry = loss.add_causes();
    entry->set_cause(cause);
    entry->set_events(events);
  }
  if (!request_.sink->Append(xspace::ItemKind::kLoss, loss.SerializeAsString())) {
    report_.warnings.push_back("the store had no room for the account of the GPU part");
  }
}

void CudaSession::Leave() {
  if (given_up_ || std::exchange(left_, true)) return;
  const FinalizeDecision decision = DecideFinalize(api_->version, graphs_seen_, finalize_);
  if (!tracing_.Leave(decision.finalize, limits_.leave_wait, limits_.leave)) {
    GiveUp();
    report_.state = "degraded";
    report_.reason = hang_reason_;
    return;
  }
  for (std::string& text : tracing_.TakeWarnings()) report_.warnings.push_back(std::move(text));
  if (tracing_.finalized()) pool_.Forsake();
  if (!decision.reason.empty() && !tracing_.finalized()) {
    report_.warnings.push_back(absl::StrCat(
        "CUPTI stays loaded into CUDA, which may slow it a little; ", decision.reason));
  }
}

CollectorReport CudaSession::Report() {
  Leave();
  return report_;
}

}  // namespace jobscope::cuda
