// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's steps without code: what an optimizer does once per iteration.
//
// From 2.0 on PyTorch calls a hook of ours behind every optimizer's step, whether a capture runs or
// not. An optimizer that is called several times per iteration, for one part of the parameters
// after the other, ends one step. Where DeepSpeed's engine is loaded, its update is the step. Where
// there is none (before 2.0; Python is not to be reached), the user scope
// "Optimizer.step#SGD.step", which every version has, is seen while a capture records.
#ifndef COLLECTORS_TORCH_TORCH_STEPS_H_
#define COLLECTORS_TORCH_TORCH_STEPS_H_

#include <cstdint>

namespace jobscope::framework::torch {

// ---- the hook ----

// Looks for the process's Python, and has it tell of PyTorch's import, or finds it imported; from
// then on steps, unless they are switched off, and compilations are noticed. Each further call
// looks whether the program has removed the callbacks of compilations. False: there is no
// interpreter yet, so another look may help. Takes the GIL: for a thread that may wait.
bool LookForPython();

// Steps are not to be inferred: JOBSCOPE_INFER_STEPS=0.
bool SwitchedOff();

// ---- the scope, called by the callbacks, on the thread that runs it ----

// Whether they are needed: there is no hook.
bool ScopesAreSteps();
void EnterOptimizerScope();
// The step of the hook that was called inside of it ends here: behind the scope, so that steps and
// scopes nest. Without a hook the scope itself is the step. `source` tells optimizers apart.
void LeaveOptimizerScope(uint32_t source);
// A backward function begins. Without a hook, optimizers' scopes between two backward passes are of
// one iteration.
void NoteBackward();
// A capture begins to see scopes.
void ForgetScopes();

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_STEPS_H_
