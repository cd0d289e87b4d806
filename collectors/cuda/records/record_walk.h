// SPDX-License-Identifier: Apache-2.0
//
// Walks the records of one of CUPTI's buffers.
#ifndef COLLECTORS_CUDA_RECORDS_RECORD_WALK_H_
#define COLLECTORS_CUDA_RECORDS_RECORD_WALK_H_

#include <cstddef>
#include <cstdint>

#include "collectors/cuda/libraries/cupti_api.h"

namespace jobscope::cuda {

// The library that wrote the records knows how far apart they are; which of them we know does not
// matter here. Never reads outside of the buffer, which outlives the walk.
class RecordWalk {
 public:
  RecordWalk(const CuptiApi* api, const uint8_t* data, size_t bytes);

  // Goes to the next record, at first to the first one. False: there is none.
  bool Next();
  const uint8_t* record() const { return record_; }
  // Bytes from the record to the end of the buffer.
  size_t left() const { return static_cast<size_t>(end_ - record_); }
  // After the last one: something follows that the library cannot read, and nobody knows how much.
  bool unreadable() const { return unreadable_; }

 private:
  // A forced flush also gives back what CUPTI had reserved and not written yet: zeros to the end.
  bool OnlyZerosFollow() const;
  // How far apart the library has two records of this kind; 0: it does not know it.
  size_t StrideOf(uint32_t kind) const;

  const CuptiApi* const api_;
  const uint8_t* const data_;
  const uint8_t* const end_;
  const uint8_t* record_ = nullptr;
  bool unreadable_ = false;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_RECORD_WALK_H_
