// SPDX-License-Identifier: Apache-2.0
//
// Reads the environment of this process while other threads may change it.
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

// Returns those of `names` that are currently set. Sees changes by setenv and putenv, so also by
// Python's os.environ; /proc/self/environ does not show them. Values are cut after 4,096 bytes, the
// longest path.
//
// Thread-safe, also beside setenv, unsetenv and clearenv, where getenv crashes: it copies memory
// and follows only pointers that it has copied. A variable that is changed meanwhile has its old or
// its new value, or is missing. Takes about 50 us, for an environment of 16,384 variables (the rest
// is ignored) some milliseconds.
//
// UNIMPLEMENTED: the process may not read its own memory (seccomp). ABORTED: these variables
// changed during each of several attempts.
absl::StatusOr<Variables> ReadOwnEnvironment(absl::Span<const std::string_view> names);

// Does the same, but uses getenv if the process may not read its own memory, and omits variables
// that change during each attempt. `names` are zero-terminated. Use it only for variables that a
// caller with fewer rights than this program may set.
Variables CallersVariables(absl::Span<const std::string_view> names);

// Does the same, but returns nothing in a program with more rights than its caller (set-user-ID,
// file capabilities), like secure_getenv.
Variables OwnVariables(absl::Span<const std::string_view> names);

// Returns one variable. Nothing: it is not set.
std::optional<std::string> OwnVariable(const char* name);

}  // namespace jobscope

#endif  // COMMON_PROCESS_OWN_ENVIRONMENT_H_
