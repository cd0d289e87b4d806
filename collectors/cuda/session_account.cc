// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/session_account.h"

#include "jobscope/v1/item.pb.h"

namespace jobscope::cuda {

void SessionAccount::LoseUnread(LossCause cause) {
  ++attempted;
  Lose(cause);
  ++lost_without_id;
}

uint64_t SessionAccount::lost() const {
  uint64_t lost = discarded_records;
  for (const auto& [cause, count] : lost_by_cause) lost += count;
  return lost;
}

void SessionAccount::Close(const Correlations::AfterTheEnd& after, uint64_t dropped,
                           uint64_t missing) {
  const auto was_outside = [this](LossCause cause, uint64_t count) {
    outside += count;
    const auto found = lost_by_cause.find(cause);
    if (found != lost_by_cause.end() && (found->second -= count) == 0) lost_by_cause.erase(found);
  };
  was_outside(LossCause::kGpuNoTimestamp, after.without_times);
  was_outside(LossCause::kGpuUnfinished, after.unfinished);
  // Losses that may belong to any launch.
  uint64_t explained = lost_without_id;
  const auto never_read = [&](LossCause cause, uint64_t count) {
    if (count == 0) return;
    Lose(cause, count);
    attempted += count;
    explained += count;
  };
  never_read(LossCause::kGpuPool, discarded_records);
  never_read(LossCause::kGpuUnread, unread_records);
  never_read(LossCause::kCuptiDropped, dropped);
  if (missing <= explained) return;
  Lose(LossCause::kGpuUnfinished, missing - explained);
  attempted += missing - explained;
}

void SessionAccount::FillReport(CollectorReport* report) const {
  report->attempted = attempted;
  report->outside = outside;
  report->lost_by_cause = lost_by_cause;
}

bool AppendLoss(const CollectorReport& report, xspace::ItemSink* sink) {
  if (report.lost_by_cause.empty()) return true;
  v1::Loss loss;
  loss.set_collector("cuda");
  Append(report.lost_by_cause, loss.mutable_causes());
  return sink->Append(xspace::ItemKind::kLoss, loss.SerializeAsString());
}

}  // namespace jobscope::cuda
