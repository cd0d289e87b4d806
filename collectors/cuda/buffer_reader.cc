// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/buffer_reader.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "collectors/cuda/discarded_records.h"
#include "collectors/cuda/records/record.h"
#include "collectors/cuda/records/record_walk.h"
#include "collectors/cuda/tracing/state_log.h"
#include "common/clock/monotonic.h"

namespace jobscope::cuda {
namespace {

constexpr size_t kMaxUnknownKinds = 32;
// More GPUs than any process has. A damaged record may have any number, and would get a plane, by
// whose place XProf counts the other GPUs.
constexpr uint32_t kMaxDevices = 1024;

}  // namespace

BufferReader::BufferReader(const CuptiApi* api, const ClockMap* clock, KernelNames* kernels,
                           ThreadNames* threads, HeldActivities* held, SessionAccount* account)
    : api_(api),
      pool_(BufferPool::Get()),
      clock_(*clock),
      kernels_(*kernels),
      threads_(*threads),
      held_(*held),
      account_(*account) {}

bool BufferReader::Read(absl::Duration budget, size_t most_held_bytes) {
  const absl::Time deadline = SteadyNow() + budget;
  while (const auto full = pool_.TakeFull()) {
    // Also if memory runs out: the process has no other buffers.
    const absl::Cleanup free = [&] { pool_.Free(full->slot); };
    if (full->discard) {
      account_.discarded_records += DiscardRecords(api_, *full);
    } else if (StateLog::Get().fatal()) {
      account_.unread_records += DiscardRecords(api_, *full);
    } else {
      ReadRecords(*full);
    }
    if (SteadyNow() > deadline || held_.bytes() > most_held_bytes) return false;
  }
  return true;
}

uint64_t BufferReader::Discard() {
  uint64_t records = 0;
  while (const auto full = pool_.TakeFull()) {
    records += DiscardRecords(api_, *full);
    pool_.Free(full->slot);
  }
  return records;
}

void BufferReader::ReadRecords(const BufferPool::Full& buffer) {
  RecordWalk walk(api_, buffer.data, buffer.bytes);
  while (walk.Next()) TakeRecord(walk.record(), walk.left());
  if (!walk.unreadable()) return;
  ++account_.unreadable_buffers;
  account_.LoseUnread(LossCause::kInvalid);
}

void BufferReader::NoteUnknown(const uint8_t* record, size_t bytes) {
  uint32_t kind = 0;
  std::memcpy(&kind, record, std::min(bytes, sizeof(kind)));
  // Before 12.9 these arrive together with synchronisation records, wanted or not.
  if (kind == kKindCudaEvent && api_->version < kCupti12_9) return;
  if (account_.unknown_kinds.size() < kMaxUnknownKinds) ++account_.unknown_kinds[kind];
}

void BufferReader::TakeRecord(const uint8_t* record, size_t bytes) {
  TimedActivity timed;
  Activity& activity = timed.activity;
  switch (ParseRecord(record, bytes, api_->version, &activity)) {
    case ParseResult::kOk:
      break;
    case ParseResult::kUnknown:
      return NoteUnknown(record, bytes);
    case ParseResult::kTruncated:
      return account_.LoseUnread(LossCause::kInvalid);
  }
  std::free(std::exchange(activity.details, nullptr));
  if (activity.type == ActivityType::kApi && threads_.IsOurs(activity.thread)) return;
  ++account_.attempted;
  // First, because a lost kernel also names its launch.
  if (activity.type == ActivityType::kKernel) timed.name = kernels_.Find(activity.name);
  activity.name = nullptr;  // belongs to the library
  if (IsDeviceWork(activity.type) && activity.device >= kMaxDevices) {
    return held_.Lose(LossCause::kInvalid, timed);
  }
  if (activity.graph != 0) graphs_seen_ = true;
  if (activity.start_ns == 0) {
    // A call that has not returned.
    if (window_is_read_ && activity.type == ActivityType::kApi) {
      ++account_.outside;
      return;
    }
    // Work that never began, or whose times CUPTI lost: mostly graph nodes when its pool on the
    // device was exhausted.
    const bool never_began = work_is_over_ && IsDeviceWork(activity.type);
    return held_.Lose(never_began ? LossCause::kGpuUnfinished : LossCause::kGpuNoTimestamp, timed);
  }
  if (activity.end_ns != 0 && activity.end_ns < activity.start_ns) {
    return held_.Lose(LossCause::kInvalid, timed);
  }
  timed.start_ticks = clock_.ToTicks(activity.start_ns);
  timed.unfinished = activity.end_ns == 0;
  timed.end_ticks = timed.unfinished ? UINT64_MAX : clock_.ToTicks(activity.end_ns);
  held_.Take(timed);
}

}  // namespace jobscope::cuda
