// SPDX-License-Identifier: Apache-2.0
//
// The environment of this process, read beside threads that change it.
#ifndef COMMON_PROCESS_OWN_ENVIRONMENT_H_
#define COMMON_PROCESS_OWN_ENVIRONMENT_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace jobscope {

// Values of environment variables, by name.
using Variables = std::map<std::string, std::string, std::less<>>;

// Returns those of `names` that are set now. Sees what setenv, putenv, and so Python's os.environ
// have changed; /proc/self/environ does not. Values are cut after 4,096 bytes, the longest path.
//
// Thread-safe, also beside setenv, unsetenv and clearenv, where getenv crashes: it copies memory
// and follows no pointer that it has not copied. A variable that is changed meanwhile has its old
// or its new value, or is missing. Takes some 50 us, of an environment of 16,384 variables
// (no more are looked at) some milliseconds.
//
// UNIMPLEMENTED: the process may not read its own memory (seccomp). ABORTED: these variables have
// changed at each of several attempts.
absl::StatusOr<Variables> ReadOwnEnvironment(absl::Span<const std::string_view> names);

// The same; by getenv where the process may not read its own memory, and without those that change
// at each attempt. `names` are zero-terminated.
Variables OwnVariables(absl::Span<const std::string_view> names);

// One variable; nothing: it is not set.
std::optional<std::string> OwnVariable(const char* name);

}  // namespace jobscope

#endif  // COMMON_PROCESS_OWN_ENVIRONMENT_H_
