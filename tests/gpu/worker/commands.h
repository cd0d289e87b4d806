// SPDX-License-Identifier: Apache-2.0
//
// What the runner tells a worker to do: one command per line, one line of JSON as the answer.
//
//   launch kernels=1000 threads=4 streams=2   →   {"ok":true,"ms":3.1}
#ifndef TESTS_GPU_WORKER_COMMANDS_H_
#define TESTS_GPU_WORKER_COMMANDS_H_

#include <atomic>
#include <cstdint>
#include <istream>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "nlohmann/json.hpp"
#include "tests/gpu/worker/device.h"
#include "tests/gpu/worker/training.h"

namespace jobscope::gpu_test {

// The arguments of a command, each "key=value".
class Arguments {
 public:
  // Takes all further words of a line.
  explicit Arguments(std::istream* words);
  std::string Text(const char* key) const;  // empty: not given
  int64_t Number(const char* key, int64_t otherwise) const;

 private:
  std::map<std::string, std::string> texts_;
};

class Commands {
 public:
  // CUDA is not touched before Open, or the first command that needs it.
  Commands(std::unique_ptr<Device> device, int ordinal);
  ~Commands();
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  // Opens the device, once.
  Error Open();
  // Carries out one command. False: it was "exit", with exit_code().
  bool Run(const std::string& line, nlohmann::json* answer);
  int exit_code() const { return exit_code_; }

 private:
  Error Dispatch(const std::string& name, const Arguments& arguments, nlohmann::json* answer);
  Error DeviceCommand(const std::string& name, const Arguments& arguments, nlohmann::json* answer);
  Error Describe(nlohmann::json* answer);
  // Stream captures one after the other, on a thread of their own.
  Error StartGraphs();
  Error StopGraphs(nlohmann::json* answer);

  const std::unique_ptr<Device> device_;
  const int ordinal_;
  bool opened_ = false;
  int exit_code_ = -1;
  Training training_;
  std::thread graphs_;
  std::atomic<bool> stop_graphs_{false};
  int64_t graphs_built_ = 0;
  Error graphs_error_;
};

}  // namespace jobscope::gpu_test

#endif  // TESTS_GPU_WORKER_COMMANDS_H_
