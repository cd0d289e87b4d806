// SPDX-License-Identifier: Apache-2.0
#include "collectors/torch/torch_exceptions.h"

namespace jobscope::framework::torch {
namespace {

// __cxa_eh_globals of the Itanium C++ ABI.
struct ExceptionGlobals {
  void* caught;
  unsigned int uncaught;
};

}  // namespace

void SettleUncaught(const Api& api) {
  if (api.exception_globals == nullptr) return;
  auto* const theirs = static_cast<ExceptionGlobals*>(api.exception_globals());
  auto* const ours = reinterpret_cast<ExceptionGlobals*>(abi::__cxa_get_globals());
  if (theirs == ours || theirs == nullptr || theirs->uncaught == 0) return;
  --theirs->uncaught;
  ++ours->uncaught;
}

}  // namespace jobscope::framework::torch
