// SPDX-License-Identifier: Apache-2.0
//
// Calls into PyTorch that may throw.
#ifndef COLLECTORS_TORCH_TORCH_EXCEPTIONS_H_
#define COLLECTORS_TORCH_TORCH_EXCEPTIONS_H_

#include <cxxabi.h>

#include "collectors/torch/torch_library.h"

namespace jobscope::framework::torch {

// libjobscope.so has a C++ runtime of its own. An exception that PyTorch's threw and that was
// caught here is missing from our count of flying ones, and still in theirs, which
// std::uncaught_exceptions() would tell for the rest of the thread's life. Within a handler.
void SettleUncaught(const Api& api);

// Runs body(). False: it threw. The end of a thread (Python ends threads so) passes.
template <typename Body>
bool CatchTheirs(const Api& api, Body body) {
  try {
    body();
    return true;
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    SettleUncaught(api);
    return false;
  }
}

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_EXCEPTIONS_H_
