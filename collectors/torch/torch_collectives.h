// SPDX-License-Identifier: Apache-2.0
//
// What PyTorch tells of a collective of torch.distributed when it begins.
#ifndef COLLECTORS_TORCH_TORCH_COLLECTIVES_H_
#define COLLECTORS_TORCH_TORCH_COLLECTIVES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collectors/torch/torch_library.h"

namespace jobscope::framework::torch {

// What is not known is absent, or empty.
struct CollectiveFacts {
  std::string process_group;
  std::optional<int64_t> sequence;    // within the process group, the same on all of its ranks
  std::optional<int64_t> bytes;       // of the tensors that this rank gives
  std::string dtype;                  // of these, as torch names it: "float32"; empty: several
  std::optional<int64_t> group_size;  // ranks
};

// Whether an asynchronous user scope is a collective: "gloo:all_reduce", "nccl:broadcast".
bool IsCollective(const char* name);

// Within the start function of the collective's scope, of a callback that needs inputs. Throws
// nothing that PyTorch throws: what it refuses to tell is absent. Some microseconds.
CollectiveFacts ReadCollective(const Api& api, const void* record_function, const char* name);

// A type of elements by any of the names that PyTorch has for it: of C++ ("c10::BFloat16"), or
// "BFloat16". `bytes` 0: not known.
struct ElementType {
  std::string_view dtype;
  int64_t bytes = 0;
};
ElementType ElementTypeOf(std::string_view name);

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_COLLECTIVES_H_
