// SPDX-License-Identifier: Apache-2.0
//
// Installs profile functions of threads, for versions before 3.12. Every function requires the GIL.
// Used by call_hooks.cc.
#ifndef COLLECTORS_PYTHON_CALLS_PROFILE_HOOKS_H_
#define COLLECTORS_PYTHON_CALLS_PROFILE_HOOKS_H_

#include "absl/status/status.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/stacks/trace_api.h"

namespace jobscope::python {

absl::Status CheckProfiles(const Api& api, const TraceApi& trace);
absl::Status InstallProfiles(const Api& api, const TraceApi& trace);
void RemoveProfiles(const Api& api, const TraceApi& trace);

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_CALLS_PROFILE_HOOKS_H_
