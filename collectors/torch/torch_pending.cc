// SPDX-License-Identifier: Apache-2.0
#include "collectors/torch/torch_pending.h"

#include <algorithm>

namespace jobscope::framework::torch {

void PendingCollectives::Add(const CollectiveFacts& facts, const TensorKeys& keys) {
  if (busy_.test_and_set(std::memory_order_acquire)) return;
  calls_[added_++ % kMax] = {keys, facts};
  busy_.clear(std::memory_order_release);
}

void PendingCollectives::Take(uint64_t tensor_key, CollectiveFacts* facts) {
  if (tensor_key == 0 || busy_.test_and_set(std::memory_order_acquire)) return;
  for (size_t back = 1; back <= std::min(added_, kMax); ++back) {
    Call& call = calls_[(added_ - back) % kMax];
    if (!call.keys.Has(tensor_key)) continue;
    facts->process_group = call.facts.process_group;
    facts->sequence = call.facts.sequence;
    facts->group_size = call.facts.group_size;
    call.keys.count = 0;
    break;
  }
  busy_.clear(std::memory_order_release);
}

}  // namespace jobscope::framework::torch
