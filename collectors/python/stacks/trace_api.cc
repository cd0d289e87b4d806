// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/stacks/trace_api.h"

#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectors/python/bridge/gil.h"

namespace jobscope::python {
namespace {

// Newest Python 3 minor version for which tracer_test.py and calls_test.py of
// tests/collectors/python pass.
constexpr int kNewestTried = 15;

struct Found {
  TraceApi api;
  absl::Status status;
};

Found Find(const Api& api) {
  Found found;
  if (api.minor > kNewestTried) {
    found.status = absl::UnimplementedError(
        absl::StrCat("Python ", api.version, " is newer than 3.", kNewestTried,
                     ", the newest version for which tracing was tested: update jobscope"));
    return found;
  }
  const auto load = [&](auto* target, const char* name, const char* other = nullptr) {
    void* symbol = api.Symbol(name);
    if (symbol == nullptr && other != nullptr) symbol = api.Symbol(other);
    if (symbol == nullptr && found.status.ok()) {
      found.status = absl::UnimplementedError(absl::StrCat("Python ", api.version, " has no ", name,
                                                           ": its functions cannot be traced"));
    }
    *target = reinterpret_cast<std::remove_pointer_t<decltype(target)>>(symbol);
  };
  TraceApi& trace = found.api;
  load(&trace.Frame_GetBack, "PyFrame_GetBack");
  load(&trace.Frame_GetCode, "PyFrame_GetCode");
  load(&trace.RequestCodeExtraIndex, "PyUnstable_Eval_RequestCodeExtraIndex",
       "_PyEval_RequestCodeExtraIndex");
  load(&trace.Code_GetExtra, "PyUnstable_Code_GetExtra", "_PyCode_GetExtra");
  load(&trace.Code_SetExtra, "PyUnstable_Code_SetExtra", "_PyCode_SetExtra");
  load(&trace.InterpreterState_Main, "PyInterpreterState_Main");
  load(&trace.InterpreterState_Head, "PyInterpreterState_Head");
  if (api.minor >= 10) {
    load(&trace.GC_Disable, "PyGC_Disable");
    load(&trace.GC_Enable, "PyGC_Enable");
  }
  if (api.minor < 12) {
    load(&trace.InterpreterState_ThreadHead, "PyInterpreterState_ThreadHead");
    load(&trace.ThreadState_Next, "PyThreadState_Next");
    load(&trace.ThreadState_Swap, "PyThreadState_Swap");
    load(&trace.Eval_SetProfile, "PyEval_SetProfile");
    load(&trace.Eval_SetProfileOf, "_PyEval_SetProfile");
  }
  load(&trace.code_type, "PyCode_Type");
  load(&trace.text_type, "PyUnicode_Type");
  trace.runtime = api.Symbol("_PyRuntime");
  return found;
}

}  // namespace

absl::StatusOr<const TraceApi*> FindTraceApi(const Api& api) {
  static const Found* const found = new Found(Find(api));
  if (!found->status.ok()) return found->status;
  return &found->api;
}

Object* CallMethod(const Api& api, Object* object, const char* name,
                   std::initializer_list<Object*> arguments) {
  const Ref tuple(api, api.Tuple_New(static_cast<intptr_t>(arguments.size())));
  intptr_t index = 0;
  bool whole = static_cast<bool>(tuple);
  for (Object* argument : arguments) {
    if (argument == nullptr) {
      whole = false;
    } else if (tuple) {
      api.Tuple_SetItem(tuple.get(), index, argument);
    }
    ++index;
  }
  const Ref method(api, whole ? api.Object_GetAttrString(object, name) : nullptr);
  return method ? api.Object_CallObject(method.get(), tuple.get()) : nullptr;
}

bool HasSubInterpreters(const TraceApi& api) {
  return api.InterpreterState_Head() != api.InterpreterState_Main();
}

}  // namespace jobscope::python
