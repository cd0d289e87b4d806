// SPDX-License-Identifier: Apache-2.0
//
// What sites and argument keys are called in a trace, so that XProf reads them as what they are
// (docs/trace_format.md).
#ifndef COLLECTORS_HOST_EVENT_NAMES_H_
#define COLLECTORS_HOST_EVENT_NAMES_H_

#include <string>
#include <string_view>

namespace jobscope::host {

// True if XProf would take an event of this name for something else than an ordinary event: a step
// marker ("train...", "test...", "TraceContext..."), or work that it leaves out of the breakdown of
// a step.
bool IsMisleadingName(std::string_view name);

// The event name to write: `name`, or "scope/<name>" if that is misleading (a slash ends the
// misreading). The original then goes into display_name, which is what viewers show.
std::string SafeEventName(std::string_view name);

// The stat name to write for a key given by the user: "arg.<key>" where the key is one that XProf
// acts upon (a stat `group_id` alone takes all steps out of a trace).
std::string SafeStatName(std::string_view key);

// A `tf_op` value "<scope>/<op>:<Type>" made of a C++ name, so that the scope gets a row among
// XProf's framework ops; Type is the category, or "Scope". Empty if `name` is already of that form:
// then it has a row without.
std::string TfOpOf(std::string_view name, std::string_view category);

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_EVENT_NAMES_H_
