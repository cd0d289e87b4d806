// SPDX-License-Identifier: Apache-2.0
#include "server/process/environment.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/process/own_environment.h"
#include "common/text/foreign_text.h"
#include "server/limits.h"

namespace jobscope {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class Reader {
 public:
  explicit Reader(const std::function<const char*(const char*)>& get_variable)
      : get_variable_(get_variable) {}

  std::string Text(const char* name) const {
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

  // A number from `least` to `most`, times `unit`.
  std::optional<uint64_t> Number(const char* name, uint64_t least, uint64_t most,
                                 uint64_t unit = 1) {
    const std::string value = Text(name);
    if (value.empty()) return std::nullopt;
    uint64_t number = 0;
    if (!absl::SimpleAtoi(value, &number) || number < least || number > most) {
      Refuse(name, value, absl::StrCat(least, " to ", most));
      return std::nullopt;
    }
    return number * unit;
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
  environment.listen = reader.Text("JOBSCOPE_LISTEN");
  environment.disable = reader.Flag("JOBSCOPE_DISABLE");
  environment.port_dir = reader.Text("JOBSCOPE_PORT_DIR");
  environment.insecure = reader.Flag("JOBSCOPE_INSECURE");
  environment.store_bytes = reader.Number("JOBSCOPE_STORE_MB", limits::kMinStoreBytes / kMiB,
                                          limits::kMaxStoreBytes / kMiB, kMiB);
  environment.tls_cert = reader.Text("JOBSCOPE_TLS_CERT");
  environment.tls_key = reader.Text("JOBSCOPE_TLS_KEY");
  environment.tls_ca = reader.Text("JOBSCOPE_TLS_CA");
  environment.token_file = reader.Text("JOBSCOPE_TOKEN_FILE");
  environment.allow_close = reader.Flag("JOBSCOPE_ALLOW_CLOSE");
  environment.allow_users = reader.Text("JOBSCOPE_ALLOW_USERS");
  environment.tls_allowed_names = reader.Text("JOBSCOPE_TLS_ALLOWED_NAMES");
  environment.max_levels = reader.Text("JOBSCOPE_MAX_LEVELS");
  environment.max_duration_ms =
      reader.Number("JOBSCOPE_MAX_DURATION_MS", 1, limits::kMaxDurationMs);
  environment.max_trace_bytes = reader.Number(
      "JOBSCOPE_MAX_TRACE_MB", limits::kMinTraceBytes / kMiB, limits::kMaxTraceBytes / kMiB, kMiB);
  environment.max_captures_per_minute =
      reader.Number("JOBSCOPE_MAX_CAPTURES_PER_MINUTE", 1, limits::kMaxCapturesPerMinute);
  reader.CheckLogLevel("JOBSCOPE_LOG_LEVEL");
  if (!reader.status().ok()) return reader.status();
  return environment;
}

}  // namespace jobscope
