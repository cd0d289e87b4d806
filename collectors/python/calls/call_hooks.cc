// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/calls/call_hooks.h"

#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectors/python/bridge/gil.h"
#include "collectors/python/bridge/values.h"
#include "collectors/python/calls/monitoring_hooks.h"
#include "collectors/python/calls/profile_hooks.h"

namespace jobscope::python {
namespace {

constexpr int kFirstWithMonitoring = 12;

// The current session, guarded by the GIL. The reference keeps it alive for running callbacks.
std::shared_ptr<CallSession>& Current() {
  static auto* const session = new std::shared_ptr<CallSession>;
  return *session;
}

}  // namespace

CallSession* CurrentSession() {
  CallSession* const session = Current().get();
  return session != nullptr && session->active() && !Forked() && !ShuttingDown() ? session
                                                                                 : nullptr;
}

absl::Status CheckNoProfiler(const Api& api, const TraceApi& trace) {
  return api.minor >= kFirstWithMonitoring ? CheckMonitoring(api) : CheckProfiles(api, trace);
}

absl::Status InstallHooks(const Api& api, const TraceApi& trace,
                          const std::shared_ptr<CallSession>& session) {
  Current() = session;
  absl::Status status =
      api.minor >= kFirstWithMonitoring ? InstallMonitoring(api) : InstallProfiles(api, trace);
  if (!status.ok()) RemoveHooks(api, trace);
  return status;
}

void RemoveHooks(const Api& api, const TraceApi& trace) {
  if (api.minor >= kFirstWithMonitoring) {
    RemoveMonitoring(api);
  } else {
    RemoveProfiles(api, trace);
  }
  api.Err_Clear();
  Current().reset();
}

}  // namespace jobscope::python
