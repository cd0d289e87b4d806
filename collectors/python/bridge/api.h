// SPDX-License-Identifier: Apache-2.0
//
// Declares the part of CPython's C API that jobscope uses, found at run time in the host process.
#ifndef COLLECTORS_PYTHON_BRIDGE_API_H_
#define COLLECTORS_PYTHON_BRIDGE_API_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace jobscope::python {

// PyObject, PyThreadState: opaque. This code knows the layout of neither, only of the two structs
// that the stable ABI fixes.
struct Object;
struct ThreadState;
struct InterpreterState;
using CFunction = Object* (*)(Object* self, Object* arguments);

// PyMethodDef of the stable ABI.
struct MethodDefinition {
  const char* name;
  CFunction function;
  int flags;
  const char* doc;
};
inline constexpr int kMethodVarargs = 0x0001;
inline constexpr int kMethodFastcall = 0x0080;
inline constexpr int kFileInput = 257;  // Py_file_input
inline constexpr int kGilStateUnlocked = 1;

// Functions of the stable ABI. The names are Python's, without the prefix Py.
struct Api {
  // Callable without the GIL.
  int (*IsInitialized)() = nullptr;
  int (*IsFinalizing)() = nullptr;
  const char* (*GetVersion)() = nullptr;
  int (*GILState_Ensure)() = nullptr;
  ThreadState* (*GILState_GetThisThreadState)() = nullptr;
  InterpreterState* (*InterpreterState_Main)() = nullptr;
  ThreadState* (*ThreadState_New)(InterpreterState*) = nullptr;

  // Require the GIL.
  void (*GILState_Release)(int) = nullptr;
  void (*ThreadState_Clear)(ThreadState*) = nullptr;
  void (*ThreadState_DeleteCurrent)() = nullptr;  // also releases the GIL
  ThreadState* (*Eval_SaveThread)() = nullptr;
  void (*Eval_RestoreThread)(ThreadState*) = nullptr;
  void (*IncRef)(Object*) = nullptr;
  void (*DecRef)(Object*) = nullptr;
  Object* (*Err_Occurred)() = nullptr;
  void (*Err_Fetch)(Object** type, Object** value, Object** traceback) = nullptr;
  void (*Err_Restore)(Object* type, Object* value, Object* traceback) = nullptr;
  void (*Err_NormalizeException)(Object** type, Object** value, Object** traceback) = nullptr;
  void (*Err_Clear)() = nullptr;
  void (*Err_SetString)(Object* type, const char* text) = nullptr;
  Object* (*Object_Str)(Object*) = nullptr;
  Object* (*Object_Type)(Object*) = nullptr;
  Object* (*Object_GetAttrString)(Object*, const char*) = nullptr;
  int (*Object_IsTrue)(Object*) = nullptr;
  Object* (*Object_CallObject)(Object* callable, Object* arguments) = nullptr;
  unsigned long (*Type_GetFlags)(Object*) = nullptr;
  int (*Type_IsSubtype)(Object*, Object*) = nullptr;
  Object* (*Unicode_DecodeUTF8)(const char*, intptr_t, const char* errors) = nullptr;
  Object* (*Unicode_AsEncodedString)(Object*, const char* encoding, const char* errors) = nullptr;
  // The text of a living str; nullptr with an exception set for anything else. `size` may be null.
  const char* (*Unicode_AsUTF8AndSize)(Object*, intptr_t* size) = nullptr;
  Object* (*Bytes_FromStringAndSize)(const char*, intptr_t) = nullptr;
  int (*Bytes_AsStringAndSize)(Object*, char**, intptr_t*) = nullptr;
  Object* (*Long_FromLongLong)(long long) = nullptr;
  long long (*Long_AsLongLong)(Object*) = nullptr;
  Object* (*Float_FromDouble)(double) = nullptr;
  double (*Float_AsDouble)(Object*) = nullptr;
  Object* (*Tuple_New)(intptr_t) = nullptr;
  intptr_t (*Tuple_Size)(Object*) = nullptr;
  Object* (*Tuple_GetItem)(Object*, intptr_t) = nullptr;            // borrowed
  int (*Tuple_SetItem)(Object*, intptr_t, Object* item) = nullptr;  // steals the item
  Object* (*Dict_GetItemString)(Object*, const char*) = nullptr;    // borrowed, no exception
  Object* (*Dict_GetItem)(Object*, Object* key) = nullptr;          // borrowed, no exception
  int (*Dict_SetItemString)(Object*, const char*, Object*) = nullptr;
  int (*Dict_Next)(Object*, intptr_t* position, Object** key, Object** value) = nullptr;
  Object* (*Module_New)(const char*) = nullptr;
  Object* (*Module_GetDict)(Object*) = nullptr;  // borrowed
  Object* (*Import_GetModuleDict)() = nullptr;   // borrowed
  Object* (*Import_ImportModule)(const char*) = nullptr;
  Object* (*Eval_GetBuiltins)() = nullptr;  // borrowed
  Object* (*CompileString)(const char* source, const char* file, int start) = nullptr;
  Object* (*Eval_EvalCode)(Object* code, Object* globals, Object* locals) = nullptr;
  Object* (*CFunction_NewEx)(MethodDefinition*, Object* self, Object* module) = nullptr;
  Object* (*Capsule_New)(void*, const char* name, void (*)(Object*)) = nullptr;
  void* (*Capsule_GetPointer)(Object*, const char* name) = nullptr;

  Object* none = nullptr;
  Object* float_type = nullptr;
  Object** runtime_error_class = nullptr;  // set by Python's initialisation

  int minor = 0;        // of version 3.x
  std::string version;  // "3.11.7"
  // The library that exports them, for symbols beyond the stable ABI. nullptr: the global scope.
  void* library = nullptr;

  // Returns nullptr when there is none. Waits while a library is being loaded, so the caller must
  // not hold the GIL: a constructor of that library may be waiting for it.
  void* Symbol(const char* name) const;
};

// Returns whether an earlier search found no Python, and no library has been loaded since. Never
// blocks.
bool SurelyAbsent();

// Finds Python's functions. Does not acquire the GIL; unless Python is surely absent, blocks while
// a library is being loaded. NOT_FOUND: no Python in this process; UNIMPLEMENTED: an unsupported
// one. The table lives as long as the process.
absl::StatusOr<const Api*> FindApi();

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_BRIDGE_API_H_
