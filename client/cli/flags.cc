// SPDX-License-Identifier: Apache-2.0
#include "client/cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/base/exit_code.h"
#include "client/cli/suggestion.h"
#include "client/cli/verbs.h"
#include "client/rpc/credentials.h"
#include "common/arguments/parse_arguments.h"
#include "common/process/identity.h"

namespace jobscope {
namespace {

constexpr char kAddresses[] =
    "workers, comma-separated: host:port, grpc://host:port, [v6]:port, unix:/path, "
    "node[01-16]:port, dns:///name:port, @file, @directory of *.addr files";

constexpr NumberFlag kCommonNumbers[] = {
    {"connect_timeout_ms", &Flags::connect_timeout_ms, 1, kMaxMs,
     "time limit in ms for one connection attempt"},
    {"max_parallel", &Flags::max_parallel, 1, 16384,
     "largest number of workers to connect to at the same time"},
};

// Returns "[1..1000]", or "[1..]" if other limits are lower than the flag's.
std::string RangeText(const NumberFlag& number) {
  return absl::StrCat("[", number.low, "..", number.high < INT_MAX ? absl::StrCat(number.high) : "",
                      "]");
}

void AddCommon(CLI::App* app, Flags* flags) {
  app->add_option("--service_addr", flags->service_addr, kAddresses);
  AddNumbers(kCommonNumbers, app, flags);
  app->add_flag("--json", flags->json, "print only the manifest on stdout");
  app->add_flag("--quiet", flags->quiet, "print no progress on stderr");
}

void AddCredentials(CLI::App* app, CredentialFlags* credentials) {
  constexpr char kGroup[] =
      "Credentials (default: JOBSCOPE_TLS_CA, _CERT, _KEY, JOBSCOPE_TOKEN_FILE)";
  app->add_option("--tls_ca", credentials->tls_ca,
                  "use TLS; PEM file of the CA that signed the workers' certificates")
      ->group(kGroup);
  app->add_option("--tls_cert", credentials->tls_cert,
                  "PEM file of a certificate for workers that require one")
      ->group(kGroup);
  app->add_option("--tls_key", credentials->tls_key, "PEM file of the key of --tls_cert")
      ->group(kGroup);
  app->add_option("--token_file", credentials->token_file,
                  "file of the token for workers that require one")
      ->group(kGroup);
  app->add_option("--tls_server_name", credentials->tls_server_name,
                  "name in the workers' certificates, if it differs from the address (a tunnel)")
      ->group(kGroup);
}

absl::Status CheckCommon(const Flags& flags) {
  if (flags.service_addr.empty()) {
    return absl::InvalidArgumentError("--service_addr is missing; name the workers, host:port,...");
  }
  return CheckNumbers(kCommonNumbers, flags);
}

// Returns "did you mean --duration_ms? " for the first unknown argument, or nothing.
std::string MaybeMeant(const CLI::App& app, const std::vector<std::string>& unknown) {
  if (unknown.empty()) return "";
  const std::string first = unknown[0].substr(0, unknown[0].find('='));
  const bool is_flag = absl::StartsWith(first, "-");
  std::vector<std::string> known;
  if (is_flag) {
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back(name);
    }
  } else {
    known = VerbNames();
  }
  const auto meant =
      Suggestion(first.substr(std::min(first.find_first_not_of('-'), first.size())), known);
  if (!meant.has_value()) return "";
  return absl::StrCat("did you mean ", is_flag ? "--" : "", *meant, "? ");
}

FlagsResult Print(std::string text, int exit_code) {
  return {std::nullopt, std::move(text), exit_code};
}

}  // namespace

absl::Span<const NumberFlag> CommonNumbers() { return kCommonNumbers; }

void AddNumbers(absl::Span<const NumberFlag> numbers, CLI::App* app, Flags* flags) {
  for (const NumberFlag& number : numbers) {
    const std::string help = absl::StrCat(number.help, " ", RangeText(number));
    CLI::Option* const added = std::visit(
        [&](auto of) { return app->add_option(absl::StrCat("--", number.name), flags->*of, help); },
        number.member);
    if (number.Of(*flags).has_value()) added->capture_default_str();
  }
}

absl::Status CheckNumbers(absl::Span<const NumberFlag> numbers, const Flags& flags) {
  for (const NumberFlag& number : numbers) {
    const std::optional<int64_t> value = number.Of(flags);
    if (!value.has_value() || (*value >= number.low && *value <= number.high)) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", number.name, "=", *value,
                                                   " is out of range; give ", number.low, " to ",
                                                   number.high));
  }
  return absl::OkStatus();
}

FlagsResult ParseFlags(const WorkerVerb& verb, const std::string& program,
                       const std::vector<std::string>& arguments) {
  Flags flags;
  CLI::App app("", program);
  app.set_version_flag("--version", std::string("jobscope ") + Version());
  AddCommon(&app, &flags);
  AddCredentials(&app, &flags.credentials);
  absl::Status status;
  verb.add_flags(&app, &flags, &status);
  try {
    ParseArguments(&app, arguments);
  } catch (const CLI::CallForHelp&) {
    return Print(app.help(), 0);
  } catch (const CLI::CallForVersion& version) {
    return Print(absl::StrCat(version.what(), "\n"), 0);
  } catch (const CLI::ParseError& error) {
    return Print(absl::StrCat(program, ": ", error.what(), "; ", MaybeMeant(app, app.remaining()),
                              program, " --help lists the flags\n"),
                 kExitUsage);
  }
  status.Update(CheckCommon(flags));
  if (status.ok()) status = verb.check_flags(app, &flags);
  if (!status.ok()) {
    return Print(absl::StrCat(program, ": ", std::string(status.message()), "\n"), kExitUsage);
  }
  return {std::move(flags), "", 0};
}

}  // namespace jobscope
