// SPDX-License-Identifier: Apache-2.0
//
// Iterates over the records of one of CUPTI's buffers.
#ifndef COLLECTORS_CUDA_RECORDS_RECORD_WALK_H_
#define COLLECTORS_CUDA_RECORDS_RECORD_WALK_H_

#include <cstddef>
#include <cstdint>

#include "collectors/cuda/libraries/cupti_api.h"

namespace jobscope::cuda {

// Iterates over the records of a buffer, by asking the library that wrote them where the next one
// is; includes kinds unknown to jobscope. Never reads outside of the buffer, which must outlive the
// walk.
class RecordWalk {
 public:
  RecordWalk(const CuptiApi* api, const uint8_t* data, size_t bytes);

  // Moves to the next record, at first to the first one. False: there is none.
  bool Next();
  const uint8_t* record() const { return record_; }
  // Returns the bytes from the record to the end of the buffer.
  size_t left() const { return static_cast<size_t>(end_ - record_); }
  // Returns, after the last record, whether data follow that the library cannot read; their amount
  // is unknown.
  bool unreadable() const { return unreadable_; }

 private:
  // Returns whether only zeros follow: a forced flush also returns what CUPTI had reserved and not
  // yet written.
  bool OnlyZerosFollow() const;
  // Returns the distance of two records of this kind in the library; 0: the kind is unknown to it.
  size_t StrideOf(uint32_t kind) const;

  const CuptiApi* const api_;
  const uint8_t* const data_;
  const uint8_t* const end_;
  const uint8_t* record_ = nullptr;
  bool unreadable_ = false;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_RECORD_WALK_H_
