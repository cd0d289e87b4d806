// SPDX-License-Identifier: Apache-2.0
//
// A small training program with a profiler server: what a worker looks like. Three kinds of threads
// (loader, preprocessing, trainer), one step per batch.
//
//   train_loop --listen=127.0.0.1:6009 [--seconds=S] [--slow_ms=M]
//   capture --service_addr=127.0.0.1:6009 --duration_ms=2000 --logdir=/tmp/logdir
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "examples/input_pipeline.h"
#include "examples/step_times.h"
#include "examples/two_layer_network.h"
#include "jobscope/profiler_server.h"
#include "jobscope/trace.h"

namespace jobscope::example {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

// Set by SIGTERM and SIGINT, and read once per step.
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");

extern "C" void RequestStop(int) { stop_requested = true; }

struct Options {
  std::string listen;
  double seconds = 0;  // 0: until SIGTERM
  double slow_ms = 0;
};

constexpr float kLearningRate = 0.02F;
constexpr int64_t kStepsPerCheckpoint = 200;

void TrainStep(int64_t step, double slow_ms, InputPipeline* pipeline, TwoLayerNetwork* network) {
  JOBSCOPE_STEP("train", step);
  std::optional<BatchInFlight> next;
  {
    JOBSCOPE_INPUT_WAIT("next_batch");
    if (slow_ms > 0) std::this_thread::sleep_for(Milliseconds(slow_ms));
    next = pipeline->Next();
  }
  if (!next) return;
  AsyncEnd(next->in_flight);
  double loss = 0.0;
  {
    JOBSCOPE_SCOPE("forward", "batch", next->batch.number);
    FlowIn(next->flow);
    loss = network->Forward(next->batch);
  }
  {
    JOBSCOPE_SCOPE("backward");
    network->Backward(next->batch);
  }
  {
    JOBSCOPE_SCOPE("update", "learning_rate", kLearningRate);
    network->Update(kLearningRate);
  }
  JOBSCOPE_COUNTER("loss", loss);
  if (step % kStepsPerCheckpoint == 0) JOBSCOPE_INSTANT("checkpoint");
}

// Set by SIGUSR1, and read once per step: the times are printed, and begin anew.
std::atomic<bool> report_requested{false};

extern "C" void RequestReport(int) { report_requested = true; }

void Report(const StepTimes& times) {
  std::printf("steps %llu, median %.2f ms, longest %.2f ms\n",
              static_cast<unsigned long long>(times.count()), times.median_ms(),
              times.longest_ms());
  std::fflush(stdout);
}

StepTimes Train(const Options& options) {
  SetThreadName("trainer");
  constexpr uint32_t kSeed = 1;
  InputPipeline pipeline(kSeed);
  TwoLayerNetwork network(kSeed);
  StepTimes times;
  const Clock::time_point start = Clock::now();
  const std::chrono::duration<double> limit(options.seconds);
  for (int64_t step = 0; !stop_requested; ++step) {
    const Clock::time_point begin = Clock::now();
    if (options.seconds > 0 && begin - start >= limit) break;
    TrainStep(step, options.slow_ms, &pipeline, &network);
    times.Add(Milliseconds(Clock::now() - begin).count());
    if (report_requested.exchange(false)) {
      Report(times);
      times = StepTimes();
    }
  }
  return times;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a small network, and lets itself be captured.", "train_loop");
  app.add_option("--listen", options.listen, "address of the profiler server, such as 127.0.0.1:0")
      ->envname("JOBSCOPE_LISTEN");
  app.add_option("--seconds", options.seconds, "how long to train; 0: until SIGTERM")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--slow_ms", options.slow_ms,
                 "waiting for input that is added to each step, in milliseconds")
      ->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, argc, argv);

  std::signal(SIGTERM, RequestStop);
  std::signal(SIGINT, RequestStop);
  std::signal(SIGUSR1, RequestReport);

  ProfilerServerOptions server_options;
  server_options.address = options.listen;
  const ProfilerServer server = ProfilerServer::Start(server_options);
  if (server) {
    std::printf("listening on %s\n", server.address().c_str());
    std::fflush(stdout);
  } else {
    std::fprintf(stderr, "train_loop: no profiler server, training goes on: %s\n",
                 server.error().c_str());
  }

  Report(Train(options));
  return 0;
}

}  // namespace
}  // namespace jobscope::example

int main(int argc, char** argv) {
  try {
    return jobscope::example::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_loop: %s\n", error.what());
    return 1;
  }
}
