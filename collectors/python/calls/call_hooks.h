// SPDX-License-Identifier: Apache-2.0
//
// Level 2: installs Python's call hooks. Uses sys.monitoring from 3.12 on, profile functions
// before.
#ifndef COLLECTORS_PYTHON_CALLS_CALL_HOOKS_H_
#define COLLECTORS_PYTHON_CALLS_CALL_HOOKS_H_

#include <memory>

#include "absl/status/status.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/calls/call_session.h"
#include "collectors/python/stacks/trace_api.h"

namespace jobscope::python {

// With the GIL. FAILED_PRECONDITION: another profiler is at work; it is not disturbed.
absl::Status CheckNoProfiler(const Api& api, const TraceApi& trace);

// With the GIL, one at a time. From now on all Python threads tell the session of their calls: with
// sys.monitoring all of them; before 3.12 those that exist, and those that `threading` starts
// later. On failure nothing is left behind.
absl::Status InstallHooks(const Api& api, const TraceApi& trace,
                          const std::shared_ptr<CallSession>& session);
// With the GIL. Takes ours away, and no others. Afterwards nobody calls the session.
void RemoveHooks(const Api& api, const TraceApi& trace);

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_CALLS_CALL_HOOKS_H_
