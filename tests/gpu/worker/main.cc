// SPDX-License-Identifier: Apache-2.0
//
// A worker that does GPU work on command, with a profiler server in it.
//
//   gpu_worker --listen=ADDRESS [--device=N] [--lazy] [--preload=LIBRARY]
//
// Prints {"listening":…,"pid":…} as its first line, then an answer for each command read from
// standard input (tests/gpu/worker/commands.h); ends at its end. --lazy: CUDA is not touched before
// the first command that needs it. --preload opens a library first, as an application would have.
// Exit 3: there is no CUDA device.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "jobscope/profiler_server.h"
#include "tests/gpu/worker/commands.h"

namespace jobscope::gpu_test {
namespace {

constexpr int kNoDevice = 3;

struct Flags {
  std::string listen = "127.0.0.1:0";
  std::string preload;
  int ordinal = 0;
  bool lazy = false;
  DeviceOptions device;
};

bool ParseFlags(int argc, char** argv, Flags* flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (name == "--listen") {
      flags->listen = value;
    } else if (name == "--preload") {
      flags->preload = value;
    } else if (name == "--device") {
      flags->ordinal = std::atoi(value.c_str());
    } else if (name == "--lazy") {
      flags->lazy = true;
    } else if (name == "--fake_cupti") {
      flags->device.fake_cupti = value;
    } else if (name == "--fake_cuda") {
      flags->device.fake_cuda = value;
    } else if (name == "--fault") {
      flags->device.fault = value;
    } else {
      std::fprintf(stderr, "gpu_worker: unknown flag %s\n", argument.c_str());
      return false;
    }
  }
  return true;
}

void Print(const nlohmann::json& line) { std::cout << line.dump() << "\n" << std::flush; }

int Main(int argc, char** argv) {
  Flags flags;
  if (!ParseFlags(argc, argv, &flags)) return 2;
  if (!flags.preload.empty() && dlopen(flags.preload.c_str(), RTLD_NOW) == nullptr) {
    std::fprintf(stderr, "gpu_worker: %s\n", dlerror());
    return 2;
  }
  Commands commands(MakeDevice(flags.device), flags.ordinal);
  if (!flags.lazy) {
    if (const Error error = commands.Open(); !error.empty()) {
      std::fprintf(stderr, "gpu_worker: no CUDA device can be used: %s\n", error.c_str());
      return kNoDevice;
    }
  }
  ProfilerServerOptions options;
  options.address = flags.listen;
  // Never destroyed, as in most programs: a capture that runs is ended by an exit handler.
  static const auto* const server = new ProfilerServer(ProfilerServer::Start(options));
  if (!*server) {
    std::fprintf(stderr, "gpu_worker: %s\n", server->error().c_str());
    return 1;
  }
  Print({{"listening", server->address()}, {"pid", getpid()}});
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::json answer;
    const bool goes_on = commands.Run(line, &answer);
    Print(answer);
    if (!goes_on) return commands.exit_code();
  }
  return 0;
}

}  // namespace
}  // namespace jobscope::gpu_test

int main(int argc, char** argv) { return jobscope::gpu_test::Main(argc, argv); }
