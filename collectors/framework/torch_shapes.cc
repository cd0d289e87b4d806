// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/torch_shapes.h"

#include <cxxabi.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>

#include "jobscope/detail/writer_abi.h"

namespace jobscope::framework::torch {
namespace {

// __cxa_eh_globals, of the Itanium C++ ABI.
struct ExceptionGlobals {
  void* caught;
  unsigned int uncaught;
};

// libjobscope.so has a C++ runtime of its own. An exception that PyTorch's threw and that was
// caught here is missing from our count of flying ones, and still in theirs, which
// std::uncaught_exceptions() would tell for the rest of the thread's life.
void SettleUncaught(const Api& api) {
  if (api.exception_globals == nullptr) return;
  auto* const theirs = static_cast<ExceptionGlobals*>(api.exception_globals());
  auto* const ours = reinterpret_cast<ExceptionGlobals*>(abi::__cxa_get_globals());
  if (theirs == ours || theirs == nullptr || theirs->uncaught == 0) return;
  --theirs->uncaught;
  ++ours->uncaught;
}

}  // namespace

bool ShapesText(const Sizes& sizes, std::string* text) {
  if (std::all_of(sizes.begin(), sizes.end(), [](const auto& one) { return one.empty(); })) {
    return false;
  }
  *text = "[";
  for (size_t i = 0; i < sizes.size() && text->size() <= JOBSCOPE_MAX_STRING; ++i) {
    text->append(i == 0 ? "[" : ", [");
    for (size_t d = 0; d < sizes[i].size() && text->size() <= JOBSCOPE_MAX_STRING; ++d) {
      char number[24];
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
  try {
    const Sizes sizes = api.input_sizes(record_function, /*flatten_lists=*/false);
    return ShapesText(sizes, text) ? ShapesRead::kText : ShapesRead::kNothing;
  } catch (const abi::__forced_unwind&) {
    throw;  // the thread is being ended: Python does so, where a tensor's sizes ask it
  } catch (...) {
    SettleUncaught(api);
    return ShapesRead::kRefused;
  }
}

}  // namespace jobscope::framework::torch
