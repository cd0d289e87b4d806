// SPDX-License-Identifier: Apache-2.0
//
// Infers PyTorch's steps from what an optimizer does once per iteration.
//
// From 2.0 on PyTorch calls our hook after every optimizer step, whether or not a capture runs. An
// optimizer that is called several times per iteration, for different parts of the parameters, ends
// one step. If DeepSpeed's engine is loaded, its update is the step. Without a hook (before 2.0, or
// if Python cannot be used), the user scope "Optimizer.step#SGD.step", which every version has, is
// observed while a capture records.
#ifndef COLLECTORS_TORCH_TORCH_STEPS_H_
#define COLLECTORS_TORCH_TORCH_STEPS_H_

#include <cstdint>

namespace jobscope::framework::torch {

// ---- the hook ----

// Searches for Python and makes it report PyTorch's import, or finds it imported. From then on it
// notices steps, unless disabled, and compilations. Each further call checks whether the program
// has removed the callbacks of compilations. False: there is no interpreter yet, so another call
// may help. Acquires the GIL: call it on a thread that may wait.
bool LookForPython();

// ---- the scope, called by the callbacks, on the thread that runs it ----

// Returns whether scopes are needed, because there is no hook.
bool ScopesAreSteps();
void EnterOptimizerScope();
// Ends the step of a hook that was called inside of the scope, after the scope, so that steps and
// scopes nest. Without a hook the scope itself is the step. `source` distinguishes optimizers.
void LeaveOptimizerScope(uint32_t source);
// Notes the begin of a backward function. Without a hook, optimizers' scopes between two backward
// passes belong to one iteration.
void NoteBackward();
// Call it when a capture begins to see scopes.
void ForgetScopes();

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_STEPS_H_
