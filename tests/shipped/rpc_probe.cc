// SPDX-License-Identifier: Apache-2.0
//
// Calls a worker from another process, and prints the result as one line of JSON. Exit code 0:
// the RPC was answered.
//
//   rpc_probe ADDRESS describe           one Describe
//   rpc_probe ADDRESS monitor MS         one Monitor of the TensorFlow-compatible service
//   rpc_probe ADDRESS profile MS [NAME]  one Profile of that duration; says "recording" once the
//                                        worker is busy with it; counts the events of that name
//   rpc_probe ADDRESS loop THREADS       Describe again and again until standard input ends; says
//                                        "looping" once a call has succeeded, or none has for 60 s
//
// JOBSCOPE_PROBE_CA names a CA file: the call then goes over TLS, to the name "localhost".
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "tensorflow/profiler_service.grpc.pb.h"

namespace {

using Clock = std::chrono::steady_clock;

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt("grpc.use_local_subchannel_pool", 1);
  const char* ca = std::getenv("JOBSCOPE_PROBE_CA");
  if (ca == nullptr) {
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }
  std::ifstream file(ca);
  grpc::SslCredentialsOptions options;
  options.pem_root_certs.assign(std::istreambuf_iterator<char>(file), {});
  arguments.SetSslTargetNameOverride("localhost");
  return grpc::CreateCustomChannel(address, grpc::SslCredentials(options), arguments);
}

void SetDeadline(grpc::ClientContext* context, int64_t ms) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(ms));
}

int Answer(const grpc::Status& status, Clock::time_point began, nlohmann::json answer) {
  answer["code"] = static_cast<int>(status.error_code());
  answer["message"] = status.error_message();
  answer["elapsed_ms"] =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began).count();
  std::cout << answer.dump() << std::endl;
  return status.ok() ? 0 : 1;
}

int Describe(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = jobscope::v1::Profiler::NewStub(channel);
  grpc::ClientContext context;
  SetDeadline(&context, 10'000);
  jobscope::v1::DescribeResponse response;
  const auto began = Clock::now();
  const grpc::Status status = stub->Describe(&context, {}, &response);
  return Answer(status, began,
                {{"version", response.version()}, {"pid", response.identity().pid()}});
}

int Monitor(const std::shared_ptr<grpc::Channel>& channel, int64_t duration_ms) {
  const auto stub = tensorflow::ProfilerService::NewStub(channel);
  grpc::ClientContext context;
  SetDeadline(&context, duration_ms + 10'000);
  tensorflow::MonitorRequest request;
  request.set_duration_ms(static_cast<uint64_t>(duration_ms));
  tensorflow::MonitorResponse response;
  const auto began = Clock::now();
  const grpc::Status status = stub->Monitor(&context, request, &response);
  return Answer(status, began, {{"data", response.data()}});
}

int64_t CountEvents(const tensorflow::ProfileResponse& response, const std::string& name) {
  int64_t count = 0;
  for (const auto& tool : response.tool_data()) {
    tensorflow::profiler::XSpace space;
    if (!space.ParseFromString(tool.data())) return -1;
    for (const auto& plane : space.planes()) {
      for (const auto& line : plane.lines()) {
        for (const auto& event : line.events()) {
          const auto found = plane.event_metadata().find(event.metadata_id());
          if (found != plane.event_metadata().end() && found->second.name() == name) ++count;
        }
      }
    }
  }
  return count;
}

std::vector<std::string> WarningsOf(const tensorflow::ProfileResponse& response) {
  std::vector<std::string> warnings;
  for (const auto& tool : response.tool_data()) {
    tensorflow::profiler::XSpace space;
    if (!space.ParseFromString(tool.data())) continue;
    warnings.insert(warnings.end(), space.warnings().begin(), space.warnings().end());
  }
  return warnings;
}

int Profile(const std::shared_ptr<grpc::Channel>& channel, int64_t duration_ms,
            const std::string& name) {
  const auto stub = tensorflow::ProfilerService::NewStub(channel);
  grpc::ClientContext context;
  SetDeadline(&context, duration_ms + 20'000);
  tensorflow::ProfileRequest request;
  request.set_duration_ms(static_cast<uint64_t>(duration_ms));
  request.mutable_opts()->set_host_tracer_level(2);
  request.set_session_id("probe");
  tensorflow::ProfileResponse response;

  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  grpc::Status status;
  const auto began = Clock::now();
  stub->async()->Profile(&context, &request, &response, [&](grpc::Status result) {
    const std::lock_guard<std::mutex> lock(mutex);
    status = std::move(result);
    done = true;
    changed.notify_all();
  });
  // Reports when the capture runs, for tests that act in the middle of it.
  const auto native = jobscope::v1::Profiler::NewStub(channel);
  std::unique_lock<std::mutex> lock(mutex);
  bool reported = false;
  while (!changed.wait_for(lock, std::chrono::milliseconds(reported ? 1000 : 10),
                           [&] { return done; })) {
    if (reported) continue;
    grpc::ClientContext describe;
    SetDeadline(&describe, 1000);
    jobscope::v1::DescribeResponse worker;
    lock.unlock();
    const bool answered = native->Describe(&describe, {}, &worker).ok();
    lock.lock();
    if (answered && worker.busy().state() == "recording") {
      reported = true;
      std::cout << "recording" << std::endl;
    }
  }
  size_t bytes = response.xspace().ByteSizeLong();
  for (const auto& tool : response.tool_data()) bytes += tool.data().size();
  return Answer(status, began,
                {{"bytes", bytes},
                 {"empty", response.empty_trace()},
                 {"events", CountEvents(response, name)},
                 {"warnings", WarningsOf(response)}});
}

// Lets two threads wait for one lock. The first time that this happens, Abseil reads the CPU's
// frequency from a file; where there is none, errno is ENOENT afterwards. Inside of connect() of
// gRPC < 1.61, which reads errno late (grpc/grpc#35064), that ends the connection: so it did in 2
// of 1,500 loops.
void WaitForALock() {
  absl::Mutex mutex;
  bool waits = false;
  bool done = false;
  bool never = false;
  std::thread first([&] {
    const absl::MutexLock lock(&mutex);
    waits = true;
    mutex.Await(absl::Condition(&done));
  });
  {
    const absl::MutexLock lock(&mutex, absl::Condition(&waits));
    mutex.AwaitWithTimeout(absl::Condition(&never), absl::Nanoseconds(1));
    done = true;
  }
  first.join();
}

int Loop(const std::string& address, int64_t thread_count) {
  WaitForALock();
  std::atomic<bool> ended{false};
  std::atomic<int64_t> ok{0};
  std::atomic<int64_t> refused{0};  // the worker answered that it has too many calls open
  std::atomic<int64_t> failed{0};
  std::mutex mutex;
  std::condition_variable answered;
  std::string first_error;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(thread_count));
  for (int64_t i = 0; i < thread_count; ++i) {
    threads.emplace_back([&] {
      while (!ended) {
        // A new connection each time: accepted ones are what a fork may inherit half-way.
        const auto stub = jobscope::v1::Profiler::NewStub(Connect(address));
        grpc::ClientContext context;
        SetDeadline(&context, 10'000);
        jobscope::v1::DescribeResponse response;
        const grpc::Status status = stub->Describe(&context, {}, &response);
        const bool too_many = status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
        ++(status.ok() ? ok : too_many ? refused : failed);
        const std::lock_guard<std::mutex> lock(mutex);
        if (!status.ok() && first_error.empty()) first_error = status.error_message();
        answered.notify_all();
      }
    });
  }
  {
    std::unique_lock<std::mutex> lock(mutex);
    answered.wait_for(lock, std::chrono::seconds(60), [&] { return ok > 0; });
  }
  std::cout << "looping" << std::endl;
  while (std::cin.get() != EOF) {
  }
  ended = true;
  for (std::thread& thread : threads) thread.join();
  std::cout << nlohmann::json{{"ok", ok.load()},
                              {"refused", refused.load()},
                              {"failed", failed.load()},
                              {"message", first_error}}
                   .dump()
            << std::endl;
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string verb = arguments.size() > 1 ? arguments[1] : "";
  const int64_t number = arguments.size() > 2 ? std::atoll(arguments[2].c_str()) : 0;
  if (verb == "describe") return Describe(Connect(arguments[0]));
  if (verb == "monitor") return Monitor(Connect(arguments[0]), number);
  if (verb == "profile") {
    return Profile(Connect(arguments[0]), number, arguments.size() > 3 ? arguments[3] : "");
  }
  if (verb == "loop" && number > 0) return Loop(arguments[0], number);
  std::cerr
      << "usage: rpc_probe ADDRESS describe | monitor MS | profile MS [NAME] | loop THREADS\n";
  return 2;
}
