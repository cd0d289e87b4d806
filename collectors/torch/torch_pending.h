// SPDX-License-Identifier: Apache-2.0
//
// Keeps the arguments of the calls of collectives until their work begins.
#ifndef COLLECTORS_TORCH_TORCH_PENDING_H_
#define COLLECTORS_TORCH_TORCH_PENDING_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collectors/torch/torch_collectives.h"
#include "collectors/torch/torch_process_group.h"

namespace jobscope::framework::torch {

// Keeps the newest kMax calls of collectives. Called by threads of the program, which never wait: a
// thread that finds another one here skips the operation.
class PendingCollectives {
 public:
  static constexpr size_t kMax = 64;

  void Add(const CollectiveFacts& facts, const TensorKeys& keys);
  // Takes the newest call with that tensor: fills in what only a call knows, and forgets it.
  void Take(uint64_t tensor_key, CollectiveFacts* facts);

 private:
  struct Call {
    TensorKeys keys;  // none: free
    CollectiveFacts facts;
  };

  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::array<Call, kMax> calls_;
  size_t added_ = 0;
};

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_PENDING_H_
