// SPDX-License-Identifier: Apache-2.0
//
// Environments and command lines of processes that serve, or that the attach library is loaded
// into: what is accepted lies within the limits, and both find the same rank. The input is a
// sequence of variables {number, text}, then the arguments; each text ends with a zero byte.
#include <unistd.h>

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
#include "collectors/cuda/cuda_options.h"
#include "collectors/nvml/nvml_options.h"
#include "collectors/nvml/visible_devices.h"
#include "collectors/python/calls/python_options.h"
#include "common/options/recording_options.h"
#include "common/process/identity.h"
#include "common/process/own_environment.h"
#include "server/attach/environment.h"
#include "server/attach/program.h"
#include "server/listen/port_file.h"
#include "server/process/environment.h"
#include "server/rpc/ceilings.h"
#include "server/security/allowed_users.h"
#include "tests/fuzz_input.h"
#include "tests/temporary_directory.h"

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
                               "SLURM_PROCID",
                               "WORLD_SIZE",
                               "OMPI_COMM_WORLD_SIZE",
                               "PMI_SIZE",
                               "SLURM_NTASKS",
                               "SLURM_JOB_ID",
                               "LSB_JOBID",
                               "PBS_JOBID",
                               "KUBERNETES_SERVICE_HOST",
                               "HOSTNAME",
                               "TORCHELASTIC_RUN_ID",
                               "CUDA_VISIBLE_DEVICES",
                               "JOBSCOPE_NVML_MS",
                               "JOBSCOPE_NVML_LIBRARY",
                               "JOBSCOPE_CUDA_BUFFER_MB",
                               "JOBSCOPE_CUDA_DEVICE_BUFFER_MB",
                               "JOBSCOPE_CUDA_UNIFIED_MEMORY",
                               "JOBSCOPE_CUPTI_LIBRARY",
                               "JOBSCOPE_CUPTI_FINALIZE",
                               "JOBSCOPE_PYTHON_SAMPLE_HZ",
                               "JOBSCOPE_PYTHON_MIN_US",
                               "JOBSCOPE_PYTHON_MAX_CALLS"};

// What the server reads of a value: the longest path.
constexpr size_t kMaxValueBytes = 4096;

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

// The values as this process's environment, for as long as this object lives.
class Environ {
 public:
  Environ() : before_(environ) {
    for (size_t i = 0; i < kNames.size(); ++i) {
      if (g_values[i].has_value()) strings_.push_back(kNames[i] + ("=" + *g_values[i]));
    }
    for (std::string& string : strings_) pointers_.push_back(string.data());
    pointers_.push_back(nullptr);
    environ = pointers_.data();
  }
  ~Environ() { environ = before_; }
  Environ(const Environ&) = delete;
  Environ& operator=(const Environ&) = delete;

 private:
  char** const before_;
  std::vector<std::string> strings_;
  std::vector<char*> pointers_;
};

v1::Identity ReadIdentity() {
  const Environ as_given;
  const Variables found = OwnVariables(std::vector<std::string_view>(kNames.begin(), kNames.end()));
  for (size_t i = 0; i < kNames.size(); ++i) {
    const auto variable = found.find(std::string_view(kNames[i]));
    Require((variable != found.end()) == g_values[i].has_value());
    Require(variable == found.end() || variable->second == *g_values[i]);
  }
  return ProcessIdentity().Read();
}

// The worker's file is one in the directory, and removed, whatever rank and host are called.
void CheckPortFile(v1::Identity identity) {
  static const TemporaryDirectory folder;
  if (const char* const host = Get("HOSTNAME"); host != nullptr) identity.set_host(host);
  const std::string path = PortFilePath(folder.path(), identity);
  Require(path.rfind('/') == folder.path().size());
  const auto written = WritePortFile(folder.path(), identity, "0.0.0.0:6009");
  if (!written.ok()) {
    Require(identity.host().size() > 200);  // else the name is not too long
    return;
  }
  Require(*written == path && access(path.c_str(), F_OK) == 0);
  RemovePortFile(path, identity, "0.0.0.0:6009");
  Require(access(path.c_str(), F_OK) != 0);
}

void CheckIdentity() {
  const v1::Identity identity = ReadIdentity();
  Require(!identity.has_rank() || identity.rank() >= 0);
  Require(!identity.has_world_size() || identity.world_size() > 0);
  const std::string& job = identity.job();
  Require(job.size() <= 256);
  Require(std::all_of(job.begin(), job.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  // The attach library, which reads the rank itself, finds the same.
  const bool has_local_rank = identity.has_local_rank();
  Require(attach::LocalRank(&Get) == (has_local_rank ? identity.local_rank() : -1));
  char text[64];
  attach::ReadRole(&Get, text, sizeof(text));
  const std::string_view role = text;
  Require(role.empty() == !(identity.has_rank() || has_local_rank));
  const int rank = identity.has_rank() ? identity.rank() : identity.local_rank();
  Require(role.empty() || role.substr(role.find('=') + 1) == std::to_string(rank));
  CheckPortFile(identity);
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

// What collectors read: numbers lie within their limits.
void CheckCollectors() {
  const Environ as_given;
  const auto cuda = CudaCollectorOptions::FromEnvironment();
  Require(cuda.buffer_bytes >= uint64_t{1} << 20 && cuda.buffer_bytes <= uint64_t{1} << 30);
  Require(cuda.device_buffer_bytes >= uint64_t{8} << 20);
  const auto nvml = NvmlCollectorOptions::FromEnvironment();
  Require(nvml.monitor.every >= absl::Milliseconds(10) && nvml.monitor.every <= absl::Minutes(1));
  const auto python = python::TracerOptions::FromEnvironment();
  Require(python.sample_hz >= 1 && python.sample_hz <= 1000);
  Require(python.min_call_us >= 0 && python.min_call_us <= 1'000'000);
  Require(python.max_calls >= 1 && python.max_calls <= 100'000'000);
  const auto devices = nvml::ParseVisibleDevices(nvml.monitor.visible_devices);
  if (!devices.has_value()) return Require(Get("CUDA_VISIBLE_DEVICES") == nullptr);
  Require(devices->size() <= 256);
  for (const nvml::VisibleDevice& device : *devices) {
    Require(device.index.has_value() == device.uuid.empty());
    Require(nvml::GpuOfOldMigName(device.uuid).size() <= device.uuid.size());
  }
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
  Require(attach::Reason(attach::DecideAttach(program, Get("JOBSCOPE_PROGRAMS")))[0] != '\0');
}

}  // namespace
}  // namespace jobscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  FuzzInput input(data, size);
  g_values.fill(std::nullopt);
  for (int count = input.Take<uint8_t>() % 32; count > 0; --count) {
    const size_t name = input.Take<uint8_t>() % kNames.size();
    g_values[name] = TakeText(&input).substr(0, kMaxValueBytes);
  }
  CheckServer();
  CheckIdentity();
  CheckAttach();
  CheckCollectors();
  CheckProgram(&input);
  return 0;
}
