// SPDX-License-Identifier: Apache-2.0
//
// Frees what records own that are in no trace.
#ifndef COLLECTORS_CUDA_DISCARDED_RECORDS_H_
#define COLLECTORS_CUDA_DISCARDED_RECORDS_H_

#include <cstdint>

#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/tracing/buffer_pool.h"

namespace jobscope::cuda {

// Frees what the records own, except in a shared buffer. Returns their number. Once CUPTI has
// failed, makes no call into it: frees nothing, and counts up to the first record whose size is
// unknown. The buffer still belongs to the caller.
uint64_t DiscardRecords(const CuptiApi* api, const BufferPool::Full& buffer);

// Does so for all buffers that the pool has kept, and returns them to it. Thread-safe.
void DiscardKept(const CuptiApi* api);

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_DISCARDED_RECORDS_H_
