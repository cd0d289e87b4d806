// SPDX-License-Identifier: Apache-2.0
//
// Collects the session's own warnings about its recording, for the summary.
#ifndef SERVER_SESSION_SESSION_WARNINGS_H_
#define SERVER_SESSION_SESSION_WARNINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collectors/collector.h"
#include "common/xspace/segment/store.h"
#include "server/session/session_options.h"

namespace jobscope {

// The wait ended before a step of `steps` began. `stopped`: earlier than planned.
std::string NoStepBegan(const StepRange& steps, bool stopped);

// The first step began `early_ns` before the zero, which the worker shares with others.
std::string FirstStepBeganEarly(uint64_t early_ns);

// A client older than the rule that a lookback and steps exclude each other was granted a lookback.
std::string NoLookbackWithSteps();

// The tick source jumped while the session recorded.
std::string ClockJumped();

// Returns a warning for each limit that was reached, with the setting that raises it.
// `ended_early`: the recording ended because it had reached the ceiling.
std::vector<std::string> StoreWarnings(const xspace::Store& store, const SessionOptions& options,
                                       bool ended_early);

}  // namespace jobscope

#endif  // SERVER_SESSION_SESSION_WARNINGS_H_
