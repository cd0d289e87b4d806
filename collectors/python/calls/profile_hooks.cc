// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/calls/profile_hooks.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "collectors/python/bridge/gil.h"
#include "collectors/python/bridge/values.h"
#include "collectors/python/calls/monitoring_hooks.h"

namespace jobscope::python {
namespace {

// Event codes of a profile function, fixed by Python's headers.
constexpr int kCall = 0;
constexpr int kReturn = 3;

// Set when the hooks are installed, constant afterwards.
const Api* g_api = nullptr;
const TraceApi* g_trace = nullptr;
// The object passed to our profile function, which identifies it, and the Python-level profile
// function for new threads of `threading`. Created once, kept.
Object* g_hook = nullptr;

// Handles a call or return. A generator leaves its frame at each yield and enters it at each
// resumption; Python reports both as calls. Must not fail.
int OnProfile(Object*, Object* frame, int what, Object*) {
  if (what != kCall && what != kReturn) return 0;
  CallSession* const session = CurrentSession();
  if (session == nullptr) {
    // In a forked child, while Python shuts down, after max_calls: removes this thread's hook.
    g_trace->Eval_SetProfile(nullptr, nullptr);
    return 0;
  }
  Object* const code = g_trace->Frame_GetCode(frame);
  if (what == kCall) {
    session->Enter(code);
  } else {
    session->Leave(code);
  }
  g_api->DecRef(code);
  return 0;
}

// hook(frame, event, argument): the first event of a new thread replaces it by the fast function.
Object* OnNewThread(Object*, Object* arguments) {
  const Api& api = *g_api;
  CallSession* const session = CurrentSession();
  if (session == nullptr) {
    g_trace->Eval_SetProfile(nullptr, nullptr);
  } else {
    g_trace->Eval_SetProfile(&OnProfile, g_hook);
    if (api.Tuple_Size(arguments) == 3 && TextOf(api, api.Tuple_GetItem(arguments, 1)) == "call") {
      const Ref code(api, g_trace->Frame_GetCode(api.Tuple_GetItem(arguments, 0)));
      session->Enter(code.get());
    }
  }
  api.Err_Clear();
  api.IncRef(api.none);
  return api.none;
}

MethodDefinition hook_method = {"jobscope_profile", &OnNewThread, kMethodVarargs, nullptr};

Object* Threading(const Api& api) {
  return api.Dict_GetItemString(api.Import_GetModuleDict(), "threading");
}

// Passes the profile object of each thread except ours to `body(state, object)`, until that returns
// false.
template <typename Body>
void ForEachThread(const Api& api, const TraceApi& trace, Body body) {
  Object* const sys = api.Dict_GetItemString(api.Import_GetModuleDict(), "sys");
  const Ref getprofile(api, sys == nullptr ? nullptr : api.Object_GetAttrString(sys, "getprofile"));
  const Ref nothing(api, api.Tuple_New(0));
  if (!getprofile || !nothing) return;
  ThreadState* const own = trace.ThreadState_Swap(nullptr);
  trace.ThreadState_Swap(own);
  bool more = true;
  for (ThreadState* state = trace.InterpreterState_ThreadHead(trace.InterpreterState_Main());
       state != nullptr && more; state = trace.ThreadState_Next(state)) {
    if (state == own) continue;
    // sys.getprofile() refers to the thread whose state is current.
    trace.ThreadState_Swap(state);
    // The thread may have a pending exception and have released the GIL to close a file.
    Object* type = nullptr;
    Object* value = nullptr;
    Object* traceback = nullptr;
    api.Err_Fetch(&type, &value, &traceback);
    Object* const object = api.Object_CallObject(getprofile.get(), nothing.get());
    api.Err_Restore(type, value, traceback);
    trace.ThreadState_Swap(own);
    const Ref held(api, object);
    more = body(state, object);
  }
}

}  // namespace

absl::Status CheckProfiles(const Api& api, const TraceApi& trace) {
  std::string culprit;
  if (Object* const threading = Threading(api); threading != nullptr) {
    const Ref hook(api, api.Object_GetAttrString(threading, "_profile_hook"));
    if (hook && hook.get() != api.none && hook.get() != g_hook) {
      culprit = absl::StrCat("threading.setprofile() was given a ", TypeName(api, hook.get()));
    }
    api.Err_Clear();
  }
  ForEachThread(api, trace, [&](ThreadState*, Object* object) {
    if (object != nullptr && object != api.none && object != g_hook) {
      culprit = absl::StrCat("a thread has a profile function, a ", TypeName(api, object));
    }
    return culprit.empty();
  });
  if (culprit.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("another profiler is active (", culprit, "): stop it to trace Python calls"));
}

absl::Status InstallProfiles(const Api& api, const TraceApi& trace) {
  if (absl::Status free = CheckProfiles(api, trace); !free.ok()) return free;
  g_api = &api;
  g_trace = &trace;
  if (g_hook == nullptr) g_hook = api.CFunction_NewEx(&hook_method, nullptr, nullptr);
  if (g_hook == nullptr) return absl::InternalError(TakeException(api, ""));
  if (Object* const threading = Threading(api); threading != nullptr) {
    api.IncRef(g_hook);
    const Ref done(api, CallMethod(api, threading, "setprofile", {g_hook}));
  }
  bool failed = api.Err_Occurred() != nullptr;
  ForEachThread(api, trace, [&](ThreadState* state, Object*) {
    failed = failed || trace.Eval_SetProfileOf(state, &OnProfile, g_hook) != 0;
    return !failed;
  });
  if (!failed) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("setting profile functions: ", TakeException(api, "")));
}

void RemoveProfiles(const Api& api, const TraceApi& trace) {
  if (g_hook == nullptr) return;
  ForEachThread(api, trace, [&](ThreadState* state, Object* object) {
    if (object == g_hook) trace.Eval_SetProfileOf(state, nullptr, nullptr);
    return true;
  });
  Object* const threading = Threading(api);
  const Ref hook(
      api, threading == nullptr ? nullptr : api.Object_GetAttrString(threading, "_profile_hook"));
  if (hook && hook.get() == g_hook) {
    api.IncRef(api.none);
    const Ref done(api, CallMethod(api, threading, "setprofile", {api.none}));
  }
}

}  // namespace jobscope::python
