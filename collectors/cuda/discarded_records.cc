// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/discarded_records.h"

#include <cstdlib>

#include "collectors/cuda/records/record.h"
#include "collectors/cuda/records/record_walk.h"
#include "collectors/cuda/tracing/state_log.h"

namespace jobscope::cuda {

uint64_t DiscardRecords(const CuptiApi* api, const BufferPool::Full& buffer) {
  if (StateLog::Get().fatal()) return CountRecords(buffer.data, buffer.bytes, api->version);
  uint64_t records = 0;
  RecordWalk walk(api, buffer.data, buffer.bytes);
  for (; walk.Next(); ++records) {
    Activity activity;
    if (!buffer.shared &&
        ParseRecord(walk.record(), walk.left(), api->version, &activity) == ParseResult::kOk) {
      std::free(activity.details);
    }
  }
  return records;
}

void DiscardKept(const CuptiApi* api) {
  BufferPool& pool = BufferPool::Get();
  while (const auto kept = pool.TakeKept()) {
    (void)DiscardRecords(api, *kept);
    pool.Free(kept->slot);
  }
}

}  // namespace jobscope::cuda
