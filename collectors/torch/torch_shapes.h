// SPDX-License-Identifier: Apache-2.0
//
// Formats the shapes of an operator's inputs as text.
#ifndef COLLECTORS_TORCH_TORCH_SHAPES_H_
#define COLLECTORS_TORCH_TORCH_SHAPES_H_

#include <string>

#include "collectors/torch/torch_library.h"

namespace jobscope::framework::torch {

enum class ShapesRead {
  kText,
  kNothing,  // no input has a dimension
  kRefused,  // PyTorch threw: a tensor has no such sizes (nested, symbolic)
};

// Formats shapes as "[[32, 64], [128, 64], []]". Stops soon after JOBSCOPE_MAX_STRING bytes, more
// than the recorder keeps, so that it marks the text as truncated. Requires Api::input_sizes, on a
// thread that may call it.
ShapesRead ReadShapes(const Api& api, const void* record_function, std::string* text);

// Exposed for tests. Returns false if no input has a dimension.
bool ShapesText(const Sizes& sizes, std::string* text);

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_SHAPES_H_
