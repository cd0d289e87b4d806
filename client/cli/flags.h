// SPDX-License-Identifier: Apache-2.0
//
// Parses the flags of the verbs that contact workers and checks every flag's range; every error
// names its cause and the remedy.
#ifndef CLIENT_CLI_FLAGS_H_
#define CLIENT_CLI_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/cli/base/worker_verb.h"

namespace jobscope {

// A day: far beyond any capture that fits into a store, and far below any overflow.
inline constexpr int64_t kMaxMs = 86'400'000;

// The value of --protocol that stands for the native one if a worker speaks it.
inline constexpr char kAnyProtocol[] = "auto";

// What the command line asks for instead of running a verb.
struct FlagsResult {
  std::optional<Flags> flags;  // absent: print `text` and exit with `exit_code`
  std::string text;            // help, version (stdout) or the error (stderr)
  int exit_code = 0;
};

// Parses the arguments after the verb. `program` is the name that messages begin with. Pure: opens
// and dials nothing.
FlagsResult ParseFlags(const WorkerVerb& verb, const std::string& program,
                       const std::vector<std::string>& arguments);

// Describes a flag whose value is a number.
struct NumberFlag {
  const char* name;  // without dashes
  std::variant<int64_t Flags::*, std::optional<int64_t> Flags::*> member;
  int64_t low, high;
  const char* help;

  std::optional<int64_t> Of(const Flags& flags) const {
    return std::visit([&](auto of) { return std::optional<int64_t>(flags.*of); }, member);
  }
};

// Returns those of all verbs. ParseFlags adds and checks them.
absl::Span<const NumberFlag> CommonNumbers();

// For add_flags: adds the flags, with their ranges in the help.
void AddNumbers(absl::Span<const NumberFlag> numbers, CLI::App* app, Flags* flags);
// For check_flags: returns INVALID_ARGUMENT if one of them is given and not within its range.
absl::Status CheckNumbers(absl::Span<const NumberFlag> numbers, const Flags& flags);

}  // namespace jobscope

#endif  // CLIENT_CLI_FLAGS_H_
