// SPDX-License-Identifier: Apache-2.0
#include "collectors/torch/torch_shapes.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>

#include "collectors/torch/torch_exceptions.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope::framework::torch {

bool ShapesText(const Sizes& sizes, std::string* text) {
  if (std::all_of(sizes.begin(), sizes.end(), [](const auto& shape) { return shape.empty(); })) {
    return false;
  }
  // Stops after the first number beyond the limit: the recorder then marks the text as truncated.
  *text = "[";
  for (size_t i = 0; i < sizes.size() && text->size() <= JOBSCOPE_MAX_STRING; ++i) {
    text->append(i == 0 ? "[" : ", [");
    for (size_t d = 0; d < sizes[i].size() && text->size() <= JOBSCOPE_MAX_STRING; ++d) {
      char number[24];  // holds any 64-bit integer
      const auto end = std::to_chars(number, number + sizeof(number), sizes[i][d]);
      if (d > 0) text->append(", ");
      text->append(number, end.ptr);
    }
    text->push_back(']');
  }
  text->push_back(']');
  return true;
}

ShapesRead ReadShapes(const Api& api, const void* record_function, std::string* text) {
  bool has_shapes = false;
  const bool was_read = CatchTorchExceptions(api, [&] {
    const Sizes sizes = api.input_sizes(record_function, /*flatten_lists=*/false);
    has_shapes = ShapesText(sizes, text);
  });
  if (!was_read) return ShapesRead::kRefused;
  return has_shapes ? ShapesRead::kText : ShapesRead::kNothing;
}

}  // namespace jobscope::framework::torch
