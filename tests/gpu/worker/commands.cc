// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/worker/commands.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

#include "jobscope/trace.h"

namespace jobscope::gpu_test {
namespace {

using Json = nlohmann::json;

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<size_t>(q * static_cast<double>(values.size())))];
}

void Put(const Training::Result& result, Json* answer) {
  Json& json = *answer;
  json["steps"] = result.steps;
  json["cycles"] = result.cycles;
  json["mismatches"] = result.mismatches;
  json["checksum"] = std::to_string(result.checksum);
  json["median_ms"] = Quantile(result.step_ms, 0.5);
  json["p90_ms"] = Quantile(result.step_ms, 0.9);
  json["longest_ms"] = Quantile(result.step_ms, 1.0);
}

// A child that records, and ends: nothing of the parent's server or GPU may block it.
Error Fork(Json* answer) {
  const pid_t child = fork();
  if (child < 0) return "fork failed";
  if (child == 0) {
    JOBSCOPE_SCOPE("in the child");
    _exit(7);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return "waitpid failed";
  (*answer)["child_exit"] = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return {};
}

}  // namespace

Arguments::Arguments(std::istream* words) {
  for (std::string word; *words >> word;) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) texts_[word.substr(0, equals)] = word.substr(equals + 1);
  }
}

std::string Arguments::Text(const char* key) const {
  const auto found = texts_.find(key);
  return found == texts_.end() ? std::string() : found->second;
}

int64_t Arguments::Number(const char* key, int64_t otherwise) const {
  const auto found = texts_.find(key);
  return found == texts_.end() ? otherwise : std::strtoll(found->second.c_str(), nullptr, 10);
}

Commands::Commands(std::unique_ptr<Device> device, int ordinal)
    : device_(std::move(device)), ordinal_(ordinal), training_(device_.get()) {}

Commands::~Commands() {
  stop_graphs_ = true;
  if (graphs_.joinable()) graphs_.join();
}

Error Commands::StartGraphs() {
  if (graphs_.joinable()) return "graphs are being built already";
  stop_graphs_ = false;
  graphs_built_ = 0;
  graphs_error_.clear();
  graphs_ = std::thread([this] {
    while (!stop_graphs_ && graphs_error_.empty()) {
      graphs_error_ = device_->BuildGraph();
      ++graphs_built_;
    }
  });
  return {};
}

Error Commands::StopGraphs(Json* answer) {
  if (!graphs_.joinable()) return "no graphs are being built";
  stop_graphs_ = true;
  graphs_.join();
  (*answer)["graphs"] = graphs_built_;
  return graphs_error_;
}

Error Commands::Open() {
  if (opened_) return {};
  Error error = device_->Open(ordinal_);
  opened_ = error.empty();
  return error;
}

bool Commands::Run(const std::string& line, Json* answer) {
  std::istringstream words(line);
  std::string name;
  words >> name;
  const Arguments arguments(&words);
  const auto begin = std::chrono::steady_clock::now();
  const Error error = Dispatch(name, arguments, answer);
  const std::chrono::duration<double, std::milli> length = std::chrono::steady_clock::now() - begin;
  (*answer)["ok"] = error.empty();
  (*answer)["ms"] = length.count();
  if (!error.empty()) (*answer)["error"] = error;
  return exit_code_ < 0;
}

Error Commands::Dispatch(const std::string& name, const Arguments& arguments, Json* answer) {
  if (name == "exit") {
    exit_code_ = static_cast<int>(arguments.Number("code", 0));
    return {};
  }
  if (name == "host") {  // work without a GPU
    for (int64_t i = 0; i < arguments.Number("scopes", 1); ++i) {
      JOBSCOPE_SCOPE("host work", "i", i);
    }
    return {};
  }
  if (name == "fork") return Fork(answer);
  if (Error error = Open(); !error.empty()) return error;
  // Inside of a scope: the host trace has something to show in each capture.
  JOBSCOPE_SCOPE("command");
  return DeviceCommand(name, arguments, answer);
}

Error Commands::DeviceCommand(const std::string& name, const Arguments& arguments, Json* answer) {
  if (name == "describe") return Describe(answer);
  if (name == "launch") {
    return device_->Launch(arguments.Number("kernels", 1),
                           static_cast<int>(arguments.Number("threads", 1)),
                           static_cast<int>(arguments.Number("streams", 1)));
  }
  if (name == "copy")
    return device_->Copy(arguments.Number("count", 1), arguments.Number("bytes", 1 << 20));
  if (name == "allocate") {
    return device_->Allocate(arguments.Number("count", 1), arguments.Number("bytes", 1 << 20),
                             arguments.Number("pool", 0) != 0);
  }
  if (name == "make_graph")
    return device_->MakeGraph(static_cast<int>(arguments.Number("kernels", 1)));
  if (name == "replay_graph") return device_->ReplayGraph(arguments.Number("times", 1));
  if (name == "managed")
    return device_->Managed(arguments.Number("times", 1), arguments.Number("bytes", 1 << 20));
  if (name == "peer")
    return device_->Peer(arguments.Number("count", 1), arguments.Number("bytes", 1 << 20));
  if (name == "spin") return device_->Spin(arguments.Number("ms", 1000));
  if (name == "queue")
    return device_->Queue(arguments.Number("kernels", 1), arguments.Number("us", 1000));
  if (name == "timed") {
    Device::Times times;
    Error error = device_->Timed(arguments.Number("kernels", 1), arguments.Number("us", 1000),
                                 arguments.Number("gap_us", 0), &times);
    (*answer)["length_us"] = times.length_us;
    (*answer)["period_us"] = times.period_us;
    return error;
  }
  if (name == "graphs_start") return StartGraphs();
  if (name == "graphs_stop") return StopGraphs(answer);
  if (name == "client_start") return device_->StartClient(arguments.Text("library"));
  if (name == "client_stop") {
    int64_t kernels = 0;
    Error error = device_->StopClient(&kernels);
    (*answer)["kernels"] = kernels;
    return error;
  }
  if (name == "finish") return device_->Finish();
  if (name == "memory") {
    int64_t bytes = 0;
    Error error = device_->MemoryUsed(&bytes);
    (*answer)["bytes"] = bytes;
    return error;
  }
  if (name == "measure") {
    Training::Result result;
    Error error =
        training_.Run(arguments.Number("steps", 100), arguments.Number("cycle", 200), &result);
    Put(result, answer);
    return error;
  }
  if (name == "train_start") return training_.Start(arguments.Number("cycle", 200));
  if (name == "train_stop") {
    Training::Result result;
    Error error = training_.Stop(&result);
    Put(result, answer);
    return error;
  }
  if (name == "subscribe")
    return device_->Subscribe(arguments.Text("library"), arguments.Text("name"));
  if (name == "unsubscribe") return device_->Unsubscribe();
  return "unknown command " + name;
}

Error Commands::Describe(Json* answer) {
  DeviceInfo info;
  Error error = device_->Describe(&info);
  (*answer)["name"] = info.name;
  (*answer)["compute_capability"] = info.compute_capability;
  (*answer)["devices"] = info.devices;
  (*answer)["driver_version"] = info.driver_version;
  (*answer)["runtime_version"] = info.runtime_version;
  return error;
}

}  // namespace jobscope::gpu_test
