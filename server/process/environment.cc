// SPDX-License-Identifier: Apache-2.0
#include "server/process/environment.h"

#include <cstdint>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/process/own_environment.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

constexpr char kDisable[] = "JOBSCOPE_DISABLE";

class Reader {
 public:
  explicit Reader(const std::function<const char*(const char*)>& get_variable)
      : get_variable_(get_variable) {}

  std::string Text(const char* name) const {
    // The only variable that a caller with fewer rights may set: it permits nothing.
    if (!get_variable_ && absl::string_view(name) == kDisable) {
      const Variables found = CallersVariables({kDisable});
      return found.empty() ? "" : found.begin()->second;
    }
    if (!get_variable_) return OwnVariable(name).value_or("");
    const char* const value = get_variable_(name);
    return value == nullptr ? "" : value;
  }

  bool Flag(const char* name) {
    const std::string value = absl::AsciiStrToLower(Text(name));
    if (value.empty() || value == "0" || value == "false" || value == "no" || value == "off")
      return false;
    if (value == "1" || value == "true" || value == "yes" || value == "on") return true;
    Refuse(name, value, "1 or 0");
    return false;
  }

  void Read(const ServerOption& option, std::string* text) { *text = Text(option.variable); }
  void Read(const ServerOption& option, bool* flag) { *flag = Flag(option.variable); }
  void Read(const ServerOption& option, uint64_t* number) {
    const std::string value = Text(option.variable);
    if (value.empty()) return;
    const uint64_t least = option.least / option.unit;
    const uint64_t most = option.most / option.unit;
    if (!absl::SimpleAtoi(value, number) || *number < least || *number > most) {
      Refuse(option.variable, value, absl::StrCat(least, " to ", most));
    }
    *number *= option.unit;
  }

  void CheckLogLevel(const char* name) {
    const std::string value = absl::AsciiStrToLower(Text(name));
    for (absl::string_view known : {"", "debug", "info", "warning", "error", "off"}) {
      if (value == known) return;
    }
    Refuse(name, value, "debug, info, warning, error or off");
  }

  const absl::Status& status() const { return status_; }

 private:
  void Refuse(absl::string_view name, absl::string_view value, absl::string_view range) {
    status_.Update(absl::InvalidArgumentError(absl::StrCat(
        "environment variable ", name, "=", Printable(value, 64), ": must be ", range)));
  }

  const std::function<const char*(const char*)>& get_variable_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Environment> ReadEnvironment(
    const std::function<const char*(const char*)>& get_variable) {
  Reader reader(get_variable);
  Environment environment;
  environment.disable = reader.Flag(kDisable);
  environment.port_dir = reader.Text("JOBSCOPE_PORT_DIR");
  for (const ServerOption& option : kServerOptions) {
    if (option.variable == nullptr) continue;
    std::visit([&](auto member) { reader.Read(option, &(environment.options.*member)); },
               option.member);
  }
  reader.CheckLogLevel("JOBSCOPE_LOG_LEVEL");
  if (!reader.status().ok()) return reader.status();
  return environment;
}

}  // namespace jobscope
