// SPDX-License-Identifier: Apache-2.0
//
// The process group of an operator of torch.distributed, found among the operator's inputs.
//
// PyTorch tells callbacks the inputs of an operator, but no exported function gives them to those
// who do not compile with its headers. So they are looked for in the operator's record: an array of
// as many values as the operator has inputs, one of which leads to an object whose first word is
// the address of the exported virtual table of c10d::ProcessGroup. That word proves it; no
// version's layout is assumed. Each pointer on the way is followed by a copy that fails where there
// is no memory. Where nothing is found, nothing is said.
#ifndef COLLECTORS_TORCH_TORCH_PROCESS_GROUP_H_
#define COLLECTORS_TORCH_TORCH_PROCESS_GROUP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "collectors/torch/torch_collectives.h"
#include "collectors/torch/torch_library.h"

namespace jobscope::framework::torch {

// What stands for the tensors of an operation, in its call and in the work that carries it out.
struct TensorKeys {
  static constexpr size_t kMax = 8;
  std::array<uint64_t, kMax> keys = {};
  size_t count = 0;

  void Add(uint64_t key) {
    if (count < kMax) keys[count++] = key;
  }
  bool Has(uint64_t key) const;
};

// Within the start function of an operator "c10d::…", of a callback that needs inputs, on the
// thread that calls it. Fills in process_group, sequence and group_size, as far as they are found,
// and the keys of its tensors. Any thread; does not allocate but for the name; some 10 us. False:
// the operator has no process group that is known.
bool ReadProcessGroup(const Api& api, const void* record_function, CollectiveFacts* facts,
                      TensorKeys* keys);

// Within the start function of the work of a collective: the key of its first tensor; 0: there is
// none, or ReadProcessGroup has found nothing yet.
uint64_t FirstTensorKey(const void* record_function);

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_PROCESS_GROUP_H_
