// SPDX-License-Identifier: Apache-2.0
//
// Reads the buffers that CUPTI has returned, record by record.
#ifndef COLLECTORS_CUDA_BUFFER_READER_H_
#define COLLECTORS_CUDA_BUFFER_READER_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "collectors/cuda/held_activities.h"
#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/records/clock_map.h"
#include "collectors/cuda/records/kernel_names.h"
#include "collectors/cuda/records/thread_names.h"
#include "collectors/cuda/session_account.h"
#include "collectors/cuda/tracing/buffer_pool.h"

namespace jobscope::cuda {

// Counts every record, and hands it to HeldActivities or counts it as lost. Ignores calls that
// jobscope's own threads make into CUDA. Used by the collector's thread only.
class BufferReader {
 public:
  // All pointers must outlive this object.
  BufferReader(const CuptiApi* api, const ClockMap* clock, KernelNames* kernels,
               ThreadNames* threads, HeldActivities* held, SessionAccount* account);

  // Reads for at most `budget`, and until more than `most_held_bytes` are held. Returns whether no
  // buffer is left. Once CUPTI has failed, discards the records and counts them as unread: names in
  // them are no longer valid.
  bool Read(absl::Duration budget, size_t most_held_bytes);
  // Discards all remaining buffers. Returns the number of their records.
  uint64_t Discard();
  // Declares tracing over: work without a start time had not begun. `all_came`: all records of the
  // window were read before, so that a call without one began after the window.
  void EndOfWork(bool all_came) {
    work_is_over_ = true;
    window_is_read_ = all_came;
  }

  // Returns whether a CUDA graph, or a node of one, was seen.
  bool graphs_seen() const { return graphs_seen_; }

 private:
  void ReadRecords(const BufferPool::Full& buffer);
  void TakeRecord(const uint8_t* record, size_t bytes);
  void NoteUnknown(const uint8_t* record, size_t bytes);

  const CuptiApi* const api_;
  BufferPool& pool_;
  const ClockMap& clock_;
  KernelNames& kernels_;
  ThreadNames& threads_;
  HeldActivities& held_;
  SessionAccount& account_;
  bool work_is_over_ = false;
  bool window_is_read_ = false;
  bool graphs_seen_ = false;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_BUFFER_READER_H_
