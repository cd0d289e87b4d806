// SPDX-License-Identifier: Apache-2.0
//
// A callback of PyTorch that does nothing: what any recording of operators costs at least. Compiled
// by bench/torch_ops_bench.py where PyTorch's headers are installed.
#include <ATen/record_function.h>

#include <cstdint>
#include <memory>

namespace {

std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction&) { return nullptr; }

void End(const at::RecordFunction&, at::ObserverContext*) {}

}  // namespace

extern "C" uint64_t AddEmptyCallback() {
  return at::addGlobalCallback(
      at::RecordFunctionCallback(Begin, End).scopes({at::RecordScope::FUNCTION}));
}

extern "C" void RemoveCallback(uint64_t handle) { at::removeCallback(handle); }
