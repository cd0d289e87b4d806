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

// Returns FAILED_PRECONDITION if another profiler is active; it is not disturbed. Requires the GIL.
absl::Status CheckNoProfiler(const Api& api, const TraceApi& trace);

// Makes all Python threads report their calls to the session: with sys.monitoring all of them;
// before 3.12 the existing ones and those that `threading` starts later. On failure nothing is left
// installed. Requires the GIL; one call at a time.
absl::Status InstallHooks(const Api& api, const TraceApi& trace,
                          const std::shared_ptr<CallSession>& session);
// Removes our hooks and no others. Afterwards nobody calls the session. Requires the GIL.
void RemoveHooks(const Api& api, const TraceApi& trace);

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_CALLS_CALL_HOOKS_H_
