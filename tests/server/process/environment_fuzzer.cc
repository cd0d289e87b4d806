// SPDX-License-Identifier: Apache-2.0
//
// Environments and command lines of processes that serve, or that the attach library is loaded
// into: what is accepted lies within the limits. The input is a sequence of variables {number,
// text}, then the arguments; each text ends with a zero byte.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "common/options/recording_options.h"
#include "server/attach/environment.h"
#include "server/attach/program.h"
#include "server/limits.h"
#include "server/process/environment.h"
#include "server/rpc/ceilings.h"
#include "server/security/allowed_users.h"
#include "tests/fuzz_input.h"

namespace jobscope {
namespace {

constexpr std::array kNames = {"JOBSCOPE_LISTEN",
                               "JOBSCOPE_DISABLE",
                               "JOBSCOPE_PORT_DIR",
                               "JOBSCOPE_INSECURE",
                               "JOBSCOPE_STORE_MB",
                               "JOBSCOPE_TLS_CERT",
                               "JOBSCOPE_TLS_KEY",
                               "JOBSCOPE_TLS_CA",
                               "JOBSCOPE_TOKEN_FILE",
                               "JOBSCOPE_ALLOW_CLOSE",
                               "JOBSCOPE_ALLOW_USERS",
                               "JOBSCOPE_TLS_ALLOWED_NAMES",
                               "JOBSCOPE_MAX_LEVELS",
                               "JOBSCOPE_MAX_DURATION_MS",
                               "JOBSCOPE_MAX_TRACE_MB",
                               "JOBSCOPE_MAX_CAPTURES_PER_MINUTE",
                               "JOBSCOPE_LOG_LEVEL",
                               "JOBSCOPE_ATTACH_DELAY_MS",
                               "JOBSCOPE_ATTACHED",
                               "JOBSCOPE_PROGRAMS",
                               "LOCAL_RANK",
                               "OMPI_COMM_WORLD_LOCAL_RANK",
                               "MPI_LOCALRANKID",
                               "PMI_LOCAL_RANK",
                               "SLURM_LOCALID",
                               "RANK",
                               "OMPI_COMM_WORLD_RANK",
                               "PMI_RANK",
                               "SLURM_PROCID"};

std::array<std::optional<std::string>, kNames.size()> g_values;

char* Get(const char* name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (std::string_view(kNames[i]) != name) continue;
    return g_values[i].has_value() ? g_values[i]->data() : nullptr;
  }
  return nullptr;
}

std::string TakeText(FuzzInput* input) {
  std::string text;
  while (!input->empty()) {
    const auto c = input->Take<char>();
    if (c == '\0') break;
    text += c;
  }
  return text;
}

void CheckServer() {
  const auto environment = ReadEnvironment(&Get);
  if (!environment.ok()) {
    Require(environment.status().code() == absl::StatusCode::kInvalidArgument);
    return;
  }
  const ServerOptions& options = environment->options;
  for (const ServerOption& option : kServerOptions) {
    const auto* const member = std::get_if<uint64_t ServerOptions::*>(&option.member);
    if (member == nullptr) continue;
    const uint64_t number = options.**member;
    Require(number == 0 || (number >= option.least && number <= option.most));
  }
  const auto users = AllowedUsers::Parse(options.allow_users);
  if (users.ok()) {
    Require(users->Allows(0, 1000) && users->Allows(1000, 1000));
    Require(users->any() == users->Allows(static_cast<uid_t>(-1), 1000));
    Require(!users->Text(1000).empty() && !users->Text(0).empty());
  }
  Ceilings ceilings;
  LevelCeilings& levels = ceilings.levels;
  (void)ParseLevels(options.max_levels, &levels).ok();
  Require(levels.host >= 0 && levels.host <= 3 && levels.device >= 0 && levels.device <= 1);
  Require(levels.python >= 0 && levels.python <= 2);
  RecordingOptions highest;
  highest.host_tracer_level = 3;
  highest.device_tracer_level = 1;
  highest.python_tracer_level = 2;
  const bool all = levels.host == 3 && levels.device == 1 && levels.python == 2;
  Require(CheckLevelCeilings("", highest, ceilings).ok() == all);
  const uint64_t captures = options.max_captures_per_minute;
  CaptureRate rate(static_cast<uint32_t>(captures));
  const absl::Time now = absl::FromUnixSeconds(1'795'248'345);
  for (uint64_t i = 0; i < std::min<uint64_t>(captures, 100); ++i) Require(rate.Take(now).ok());
  if (captures <= 100) Require(rate.Take(now).ok() == (captures == 0));
}

void CheckAttach() {
  (void)attach::Disabled(&Get);
  Require(attach::ReadLogLevel(&Get) <= attach::LogLevel::kOff);
  int delay_ms = 50;
  (void)attach::ReadDelayMs(&Get, &delay_ms);
  Require(delay_ms >= 0 && delay_ms <= 10'000);
  Require(attach::LocalRank(&Get) >= -1);
  char role[64];
  attach::ReadRole(&Get, role, sizeof(role));
  // An ancestor is found by the mark that it writes itself.
  char mark[96];
  attach::WriteMark(1, role, mark, sizeof(mark));
  Require(attach::ReadMark(mark, 2, role) ==
          (role[0] == '\0' ? attach::Above::kNoRole : attach::Above::kSameRole));
  Require(attach::ReadMark(mark, 1, role) == attach::Above::kNobody);
  (void)attach::ReadMark(Get(attach::kMarkVariable), 2, role);
}

void CheckProgram(FuzzInput* input) {
  const std::string path = TakeText(input);
  std::vector<std::string> arguments;
  while (!input->empty() && arguments.size() < 16) arguments.push_back(TakeText(input));
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  const auto program = attach::DescribeProgram(path.empty() ? nullptr : path.c_str(),
                                               static_cast<int>(argv.size()), argv.data());
  for (const char* name : {program.executable, program.called_as, program.script}) {
    Require(strnlen(name, sizeof(program.script)) < sizeof(program.script));
  }
  Require(attach::Reason(attach::Judge(program, Get("JOBSCOPE_PROGRAMS")))[0] != '\0');
}

}  // namespace
}  // namespace jobscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  FuzzInput input(data, size);
  g_values.fill(std::nullopt);
  for (int count = input.Take<uint8_t>() % 32; count > 0; --count) {
    const size_t name = input.Take<uint8_t>() % kNames.size();
    g_values[name] = TakeText(&input);
  }
  CheckServer();
  CheckAttach();
  CheckProgram(&input);
  return 0;
}
