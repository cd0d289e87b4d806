// SPDX-License-Identifier: Apache-2.0
//
// Warnings of a capture by step numbers.
#ifndef SERVER_SESSION_STEP_WARNINGS_H_
#define SERVER_SESSION_STEP_WARNINGS_H_

#include <cstdint>
#include <string>

#include "collectors/collector.h"

namespace jobscope {

// The wait ended before a step of `steps` began. `stopped`: earlier than planned.
std::string NoStepBegan(const StepRange& steps, bool stopped);

// The first step began `early_ns` before the zero, which the worker shares with others.
std::string FirstStepBeganEarly(uint64_t early_ns);

// A client older than the rule that a lookback and steps exclude each other was granted a lookback.
std::string NoLookbackWithSteps();

}  // namespace jobscope

#endif  // SERVER_SESSION_STEP_WARNINGS_H_
