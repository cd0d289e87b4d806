// SPDX-License-Identifier: Apache-2.0
#include "server/process/start_settings.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/process/environment.h"

namespace jobscope {
namespace {

// Returns whether this is the operator's server: that of `jobscope run`, or of a program that
// leaves all settings to JOBSCOPE_LISTEN.
bool IsOfEnvironment(ServerOptions in_code, const ServerOptions& in_environment) {
  if (in_code.address == in_environment.address) in_code.address.clear();
  return in_code == ServerOptions();
}

absl::Status Named(absl::string_view setting, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(setting, ": ", status.message()));
}

// Returns the absolute path: the program may change its working directory later. Returns the path
// as given if it is empty, or the working directory no longer exists.
std::string AtStart(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.string();
}

CredentialFiles FilesOf(const ServerOptions& options, const ServerOptions& in_code) {
  CredentialFiles files;
  const std::pair<FileSetting*, std::string ServerOptions::*> settings[] = {
      {&files.tls_certificate, &ServerOptions::tls_cert},
      {&files.tls_key, &ServerOptions::tls_key},
      {&files.tls_authorities, &ServerOptions::tls_ca},
      {&files.token, &ServerOptions::token_file}};
  for (const auto& [file, path] : settings) {
    if (!(options.*path).empty()) *file = {AtStart(options.*path), GiverOf(path, in_code)};
  }
  files.tls_allowed_names = options.tls_allowed_names;
  return files;
}

// Sets who may call the server, and the ceilings for requests.
absl::Status ChooseAccess(StartSettings* settings) {
  const ServerOptions& options = settings->options;
  auto users = AllowedUsers::Parse(options.allow_users);
  if (!users.ok()) {
    return Named("JOBSCOPE_ALLOW_USERS (options.allow_users)", users.status());
  }
  settings->allowed_users = *std::move(users);
  Ceilings& ceilings = settings->ceilings;
  ceilings.duration_ms = options.max_duration_ms;
  ceilings.trace_bytes = options.max_trace_bytes;
  ceilings.captures_per_minute = static_cast<uint32_t>(options.max_captures_per_minute);
  return Named("JOBSCOPE_MAX_LEVELS (options.max_levels)",
               ParseLevels(options.max_levels, &ceilings.levels));
}

}  // namespace

absl::StatusOr<StartSettings> ResolveSettings(const ServerOptions& in_code) {
  auto environment = ReadEnvironment();
  if (!environment.ok()) return environment.status();
  if (environment->disable) {
    return absl::PermissionDeniedError(
        "JOBSCOPE_DISABLE is set: no profiler server in this process");
  }
  auto options = Merge(in_code, environment->options);
  if (!options.ok()) return options.status();
  if (options->address.empty()) {
    return absl::InvalidArgumentError(
        "no address to listen on: give one in the options or in JOBSCOPE_LISTEN, such as "
        "127.0.0.1:6009");
  }
  StartSettings settings;
  settings.by_environment = IsOfEnvironment(in_code, environment->options);
  settings.options = *std::move(options);
  settings.credentials = FilesOf(settings.options, in_code);
  if (auto status = ChooseAccess(&settings); !status.ok()) return status;
  settings.port_dir = std::move(environment->port_dir);
  settings.absolute_port_dir = AtStart(settings.port_dir);
  return settings;
}

}  // namespace jobscope
