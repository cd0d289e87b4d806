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

// Formats shapes as "[[32, 64], [128, 64], []]". Longer texts exceed what the recorder keeps by a
// little, so that it marks them as cut. Only if Api::input_sizes exists and may be called.
ShapesRead ReadShapes(const Api& api, const void* record_function, std::string* text);

// Exposed for tests. False: no input has a dimension.
bool ShapesText(const Sizes& sizes, std::string* text);

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_SHAPES_H_
