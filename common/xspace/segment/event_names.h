// SPDX-License-Identifier: Apache-2.0
//
// Chooses the names of events and of argument keys in a trace, so that XProf interprets them
// correctly (docs/trace_format.md).
#ifndef COMMON_XSPACE_SEGMENT_EVENT_NAMES_H_
#define COMMON_XSPACE_SEGMENT_EVENT_NAMES_H_

#include <string>
#include <string_view>

namespace jobscope::xspace {

// Returns true if XProf would not take an event of this name for an ordinary one: a step marker
// ("train...", "test...", "TraceContext..."), or work that it excludes from the breakdown of a
// step.
bool IsMisleadingName(std::string_view name);

// Returns the event name to write: `name`, or "scope/<name>" if it is misleading (a slash prevents
// that). The original then becomes the display_name that viewers show.
std::string SafeEventName(std::string_view name);

// Returns the stat name to write for a user's key: "arg.<key>" if XProf acts on that key (a stat
// `group_id` alone removes all steps from a trace).
std::string SafeStatName(std::string_view key);

// Returns a `tf_op` value "<scope>/<op>:<Type>" for a C++ name, so that the scope gets a row among
// XProf's framework ops; Type is the category, or "Scope". Empty if `name` already has that form
// and so a row.
std::string TfOpOf(std::string_view name, std::string_view category);

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_SEGMENT_EVENT_NAMES_H_
