// SPDX-License-Identifier: Apache-2.0
//
// Registers callbacks with PyTorch, for one session at a time.
#ifndef COLLECTORS_TORCH_TORCH_REGISTRATION_H_
#define COLLECTORS_TORCH_TORCH_REGISTRATION_H_

#include <vector>

#include "collectors/torch/torch_library.h"

namespace jobscope::framework::torch {

// Removes the callbacks that are registered, and registers `callbacks` (at most three). From the
// first call on, the process's exit removes what is registered then, and later calls do nothing.
// `api` must stay valid for ever. Thread-safe, like the functions below. None waits for operators.
void Register(const Api& api, const std::vector<Callback>& callbacks);
// Registers one more, unless none is registered or this was called since Register.
void RegisterOnce(const Callback& callback);
void Unregister();

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_REGISTRATION_H_
