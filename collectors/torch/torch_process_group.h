// SPDX-License-Identifier: Apache-2.0
//
// Finds the process group of a torch.distributed operator among the operator's inputs.
//
// PyTorch gives callbacks the inputs of an operator, but no exported function makes them available
// without its headers. So they are searched for in the operator's record: an array of as many
// values as the operator has inputs, one of which leads to an object whose first word is the
// address of the exported virtual table of c10d::ProcessGroup. That word is the proof; no version's
// layout is assumed. Each pointer is followed by a copy that fails if there is no memory. If
// nothing is found, the fields stay absent.
#ifndef COLLECTORS_TORCH_TORCH_PROCESS_GROUP_H_
#define COLLECTORS_TORCH_TORCH_PROCESS_GROUP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "collectors/torch/torch_collectives.h"
#include "collectors/torch/torch_library.h"

namespace jobscope::framework::torch {

// Identifies the tensors of an operation, in its call and in the work that carries it out.
struct TensorKeys {
  static constexpr size_t kMax = 8;
  std::array<uint64_t, kMax> keys = {};
  size_t count = 0;

  void Add(uint64_t key) {
    if (count < kMax) keys[count++] = key;
  }
  bool Has(uint64_t key) const;
};

// Reads the process group of an operator "c10d::…". Call it within its start function, in a
// callback that needs inputs, on the calling thread. Fills in process_group, sequence and
// group_size, as far as they are found, and the keys of its tensors. Any thread; allocates only the
// name; takes about 10 us. False: the operator has no known process group.
bool ReadProcessGroup(const Api& api, const void* record_function, CollectiveFacts* facts,
                      TensorKeys* keys);

// Returns the key of a work's first tensor, within the start function of that work; 0: there is
// none, or ReadProcessGroup has found nothing yet.
uint64_t FirstTensorKey(const void* record_function);

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_PROCESS_GROUP_H_
