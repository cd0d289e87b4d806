// SPDX-License-Identifier: Apache-2.0
//
// Installs sys.monitoring hooks, for 3.12 and later. Every function requires the GIL. Used by
// call_hooks.cc.
#ifndef COLLECTORS_PYTHON_CALLS_MONITORING_HOOKS_H_
#define COLLECTORS_PYTHON_CALLS_MONITORING_HOOKS_H_

#include "absl/status/status.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/calls/call_session.h"

namespace jobscope::python {

// Returns the session to notify; nullptr: hooks that are still called do nothing.
CallSession* CurrentSession();

absl::Status CheckMonitoring(const Api& api);
absl::Status InstallMonitoring(const Api& api);
void RemoveMonitoring(const Api& api);

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_CALLS_MONITORING_HOOKS_H_
