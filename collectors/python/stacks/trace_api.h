// SPDX-License-Identifier: Apache-2.0
//
// Declares what tracing needs of Python's C API beyond the stable ABI: functions that each version
// from 3.9 to 3.15 exports, some under two names. If one is missing, or the version is untested,
// tracing stays off and reports the reason.
#ifndef COLLECTORS_PYTHON_STACKS_TRACE_API_H_
#define COLLECTORS_PYTHON_STACKS_TRACE_API_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "collectors/python/bridge/api.h"

namespace jobscope::python {

using ProfileFunction = int (*)(Object* self, Object* frame, int what, Object* argument);

// Every function requires the GIL.
struct TraceApi {
  Object* (*Frame_GetBack)(Object* frame) = nullptr;  // a new reference, or nullptr
  Object* (*Frame_GetCode)(Object* frame) = nullptr;  // a new reference
  // A word attached to each code object. It identifies a code object without a reference to it, and
  // without confusing it with one that took its place in memory.
  intptr_t (*RequestCodeExtraIndex)(void (*free)(void*)) = nullptr;
  int (*Code_GetExtra)(Object* code, intptr_t index, void** extra) = nullptr;
  int (*Code_SetExtra)(Object* code, intptr_t index, void* extra) = nullptr;
  // Null before 3.10. Up to 3.11 any allocation may run the garbage collector, and with it the
  // program's finalizers on our thread.
  int (*GC_Disable)() = nullptr;
  int (*GC_Enable)() = nullptr;

  // In the stable ABI; needs no GIL. Leaves a call to the main thread.

  Object* (*InterpreterState_Main)() = nullptr;
  Object* (*InterpreterState_Head)() = nullptr;  // the newest
  // For profile functions, before 3.12.
  ThreadState* (*InterpreterState_ThreadHead)(Object*) = nullptr;
  ThreadState* (*ThreadState_Next)(ThreadState*) = nullptr;
  ThreadState* (*ThreadState_Swap)(ThreadState*) = nullptr;
  void (*Eval_SetProfile)(ProfileFunction, Object* self) = nullptr;
  int (*Eval_SetProfileOf)(ThreadState*, ProfileFunction, Object* self) = nullptr;

  const Object* code_type = nullptr;
  const Object* text_type = nullptr;  // PyUnicode_Type
  const void* runtime = nullptr;      // _PyRuntime; null: not exported
};

// Finds the functions and objects. UNIMPLEMENTED names a missing one. The table lives as long as
// the process. Waits while a library is being loaded, so the caller must not hold the GIL: a
// constructor of that library may be waiting for it.
absl::StatusOr<const TraceApi*> FindTraceApi(const Api& api);

// Calls object.name(arguments...). The arguments are new references, stolen even on failure.
// Returns nullptr with an exception set. Requires the GIL.
Object* CallMethod(const Api& api, Object* object, const char* name,
                   std::initializer_list<Object*> arguments);

// Returns whether there are interpreters besides the main one; valid until the GIL is released.
// Does not walk their list, because those with their own GIL change it meanwhile. Requires the GIL.
bool HasSubInterpreters(const TraceApi& api);

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_STACKS_TRACE_API_H_
