// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/calls/monitoring_hooks.h"

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "collectors/python/bridge/gil.h"
#include "collectors/python/bridge/values.h"
#include "collectors/python/stacks/trace_api.h"

namespace jobscope::python {
namespace {

// sys.monitoring.PROFILER_ID: shared by profilers, so that only one is active at a time.
constexpr int kToolId = 2;
constexpr char kToolName[] = "jobscope";

// Set when the hooks are installed, constant afterwards.
const Api* g_api = nullptr;
// Guarded by the GIL.
bool g_installed = false;

Ref Monitoring(const Api& api) {
  Object* const sys = api.Dict_GetItemString(api.Import_GetModuleDict(), "sys");
  return Ref(api, sys == nullptr ? nullptr : api.Object_GetAttrString(sys, "monitoring"));
}

Object* Tool(const Api& api) { return api.Long_FromLongLong(kToolId); }

void SetEvents(const Api& api, Object* monitoring, int64_t events) {
  const Ref done(
      api, CallMethod(api, monitoring, "set_events", {Tool(api), api.Long_FromLongLong(events)}));
}

Object* None(const Api& api) {
  api.IncRef(api.none);
  return api.none;
}

// Disables the events when nobody needs calls any more: in a forked child, while Python shuts down,
// after max_calls. Events keep their full cost until then. Done here, because the session's threads
// may be gone.
void SwitchOff(const Api& api) {
  if (!g_installed) return;
  g_installed = false;
  const Ref monitoring = Monitoring(api);
  if (monitoring) SetEvents(api, monitoring.get(), 0);
  api.Err_Clear();
}

// Python passes (code, instruction offset, …), and makes no calls within a callback.
Object* OnEnter(Object*, Object** arguments, intptr_t count) {
  CallSession* const session = CurrentSession();
  if (session == nullptr) {
    SwitchOff(*g_api);
  } else if (count > 0) {
    session->Enter(arguments[0]);
  }
  return None(*g_api);
}

Object* OnLeave(Object*, Object** arguments, intptr_t count) {
  CallSession* const session = CurrentSession();
  if (session == nullptr) {
    SwitchOff(*g_api);
  } else if (count > 0) {
    session->Leave(arguments[0]);
  }
  return None(*g_api);
}

template <Object* (*function)(Object*, Object**, intptr_t)>
MethodDefinition* Method(const char* name) {
  static MethodDefinition method = {
      name, reinterpret_cast<CFunction>(reinterpret_cast<void (*)()>(function)), kMethodFastcall,
      nullptr};
  return &method;
}

struct Event {
  const char* name;
  bool enters;
};
// A generator leaves its frame at each yield and enters it at each resumption.
constexpr std::array<Event, 6> kEvents = {{{"PY_START", true},
                                           {"PY_RESUME", true},
                                           {"PY_THROW", true},
                                           {"PY_RETURN", false},
                                           {"PY_YIELD", false},
                                           {"PY_UNWIND", false}}};

// Registers or removes the callbacks. Returns the mask of events; 0: an exception is set.
int64_t Register(const Api& api, Object* monitoring, bool install) {
  const Ref events(api, api.Object_GetAttrString(monitoring, "events"));
  if (!events) return 0;
  int64_t mask = 0;
  for (const Event& event : kEvents) {
    Object* const number = api.Object_GetAttrString(events.get(), event.name);
    if (number == nullptr) return 0;
    mask |= IntegerOf(api, number);
    MethodDefinition* const method =
        event.enters ? Method<&OnEnter>("jobscope_enter") : Method<&OnLeave>("jobscope_leave");
    Object* const callback = install ? api.CFunction_NewEx(method, nullptr, nullptr) : None(api);
    const Ref before(
        api, CallMethod(api, monitoring, "register_callback", {Tool(api), number, callback}));
    if (!before) return 0;
  }
  return mask;
}

}  // namespace

absl::Status CheckMonitoring(const Api& api) {
  const Ref monitoring = Monitoring(api);
  const Ref tool(api,
                 monitoring ? CallMethod(api, monitoring.get(), "get_tool", {Tool(api)}) : nullptr);
  if (!tool) return absl::UnimplementedError(TakeException(api, ""));
  // Ours: left disabled by a session that ended while its hooks were being installed.
  if (tool.get() != api.none && TextOf(api, tool.get()) != kToolName) {
    return absl::FailedPreconditionError(
        absl::StrCat("another profiler is active (\"", TextOf(api, tool.get()),
                     "\" has sys.monitoring's profiler id): stop it to trace Python calls"));
  }
  return absl::OkStatus();
}

absl::Status InstallMonitoring(const Api& api) {
  if (absl::Status free = CheckMonitoring(api); !free.ok()) return free;
  g_api = &api;
  RemoveMonitoring(api);  // removes leftovers of an earlier session
  api.Err_Clear();
  const Ref monitoring = Monitoring(api);
  const Ref used(api, CallMethod(api, monitoring.get(), "use_tool_id",
                                 {Tool(api), ToPython(api, Value(std::string(kToolName)))}));
  const int64_t mask = used ? Register(api, monitoring.get(), true) : 0;
  if (mask != 0) SetEvents(api, monitoring.get(), mask);
  if (mask == 0 || api.Err_Occurred() != nullptr) {
    return absl::InternalError(absl::StrCat("sys.monitoring: ", TakeException(api, "")));
  }
  g_installed = true;
  return absl::OkStatus();
}

void RemoveMonitoring(const Api& api) {
  g_installed = false;
  const Ref monitoring = Monitoring(api);
  const Ref tool(api,
                 monitoring ? CallMethod(api, monitoring.get(), "get_tool", {Tool(api)}) : nullptr);
  if (!tool || TextOf(api, tool.get()) != kToolName) return;
  SetEvents(api, monitoring.get(), 0);
  Register(api, monitoring.get(), false);
  const Ref freed(api, CallMethod(api, monitoring.get(), "free_tool_id", {Tool(api)}));
}

}  // namespace jobscope::python
