// SPDX-License-Identifier: Apache-2.0
//
// Reads what PyTorch knows of a torch.distributed collective when it begins.
#ifndef COLLECTORS_TORCH_TORCH_COLLECTIVES_H_
#define COLLECTORS_TORCH_TORCH_COLLECTIVES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collectors/torch/torch_library.h"

namespace jobscope::framework::torch {

// Facts about a collective; unknown ones are absent or empty.
struct CollectiveFacts {
  std::string process_group;
  std::optional<int64_t> sequence;    // within the process group, equal on all of its ranks
  std::optional<int64_t> bytes;       // of the tensors that this rank contributes
  std::string dtype;                  // of these, torch's name: "float32"; empty: several
  std::optional<int64_t> group_size;  // ranks
};

// Returns whether an asynchronous user scope is a collective: "gloo:all_reduce", "nccl:broadcast".
bool IsCollective(const char* name);

// Reads the facts. Call it within the start function of the collective's scope, in a callback that
// needs inputs. Lets no exception of PyTorch escape: what it refuses to give is absent. Takes some
// microseconds.
CollectiveFacts ReadCollective(const Api& api, const void* record_function, const char* name);

// An element type, found by any of PyTorch's names: the one in C++ ("c10::BFloat16"), or
// "BFloat16". `bytes` 0: unknown.
struct ElementType {
  std::string_view dtype;
  int64_t bytes = 0;
};
ElementType ElementTypeOf(std::string_view name);

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_COLLECTIVES_H_
