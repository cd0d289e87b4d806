// SPDX-License-Identifier: Apache-2.0
//
// Guards calls into PyTorch that may throw.
#ifndef COLLECTORS_TORCH_TORCH_EXCEPTIONS_H_
#define COLLECTORS_TORCH_TORCH_EXCEPTIONS_H_

#include <cxxabi.h>

#include "collectors/torch/torch_library.h"

namespace jobscope::framework::torch {

// Corrects the count of uncaught exceptions, within a handler. libjobscope.so has its own C++
// runtime: an exception that PyTorch's runtime threw and that was caught here is missing from our
// count and remains in theirs, so that std::uncaught_exceptions() would be wrong for the rest of
// the thread's life.
void SettleUncaught(const Api& api);

// Runs body(). False: it threw. Does not catch the forced unwinding by which Python ends threads.
template <typename Body>
bool CatchTorchExceptions(const Api& api, Body body) {
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
