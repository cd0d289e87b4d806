// SPDX-License-Identifier: Apache-2.0
//
// Accounts for every record of CUPTI.
#ifndef COLLECTORS_CUDA_SESSION_ACCOUNT_H_
#define COLLECTORS_CUDA_SESSION_ACCOUNT_H_

#include <cstdint>
#include <map>

#include "collectors/collector.h"
#include "collectors/cuda/records/correlations.h"
#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/loss_cause.h"

namespace jobscope::cuda {

// Accounts for the records of a session. Every record of a known kind counts as attempted,
// and ends as an event, as `outside` (of the window), or in a cause of loss. Further losses are
// records that CUPTI reports as dropped, those in discarded or unread buffers, and kernel launches
// in the window whose kernels never arrived, beyond losses whose launch is unknown (kGpuUnfinished,
// which includes incomplete records). Work launched after the end is outside.
struct SessionAccount {
  uint64_t attempted = 0;
  uint64_t outside = 0;
  LossesByCause lost_by_cause;
  uint64_t lost_without_id = 0;  // may belong to any launch
  std::map<uint32_t, uint64_t> unknown_kinds;
  uint64_t unreadable_buffers = 0;
  uint64_t discarded_records = 0;
  uint64_t unread_records = 0;  // in buffers that could not be read in time
  // Events in the trace for which a table of the session had no room.
  uint64_t allocations_left_out = 0;  // of the totals of memory
  uint64_t unnamed_kernels = 0;

  void Lose(LossCause cause, uint64_t count = 1) { lost_by_cause[cause] += count; }
  // Counts a record whose launch is unknown.
  void LoseUnread(LossCause cause);
  // Losses so far.
  uint64_t lost() const;

  // Closes the account at the end of the session. `after`: work launched after the window;
  // `dropped`: records that CUPTI reports as dropped; `missing`: launches in the window without
  // work.
  void Close(const Correlations::AfterTheEnd& after, uint64_t dropped, uint64_t missing);
  void FillReport(CollectorReport* report) const;
};

// Appends the losses by cause. Returns false if the store has no room for them.
bool AppendLoss(const CollectorReport& report, xspace::ItemSink* sink);

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_SESSION_ACCOUNT_H_
