// SPDX-License-Identifier: Apache-2.0
//
// A worker that leaves as soon as somebody captures it and it has recorded something:
//   leaving_worker return|exit|thread|hung|ended|stopping|cuda
// from main; by exit() in main; by exit() in another thread; from main, with a collector that never
// ends its part; from main, after the capture's end, which that collector delays; from main, while
// another thread stops the server and waits for a collector; from
// main, with a CUDA and a CUPTI that it opens after it has started the server, and a kernel in
// flight.
// Prints its address. The handle of its server is never destroyed, as in most programs.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "jobscope/profiler_server.h"
#include "jobscope/provider.h"
#include "jobscope/trace.h"
#include "jobscope/trace_c.h"
#include "tests/collectors/cuda/fake_gpu.h"

namespace {

std::atomic<bool> stops{false};  // a provider

// Records until a capture has had some of it: scopes of level 1 are active during one only.
void RecordUntilCaptured() {
  for (int active = 0; active < 100 && !stops;) {
    JOBSCOPE_STEP("train", active);
    {
      JOBSCOPE_SCOPE("work");
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    if (jobscope_trace_enabled(JOBSCOPE_BIT_LEVEL1) != 0) ++active;
  }
}

int Hang(void*, const jobscope_provider_session*, char*, size_t) {
  for (;;) pause();
}

int StopAndHang(void*, const jobscope_provider_session*, char*, size_t) {
  stops = true;
  for (;;) pause();
}

int StopSlowly(void*, const jobscope_provider_session*, char*, size_t) {
  stops = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return JOBSCOPE_OK;
}

bool RegisterOneThatStopsBy(decltype(jobscope_provider::stop) stop) {
  jobscope_provider provider = {};
  provider.size = sizeof(provider);
  provider.name = "provider";
  provider.stop = stop;
  return jobscope_provider_register(&provider, nullptr, 0) == JOBSCOPE_OK;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "return";
  jobscope::ProfilerServerOptions options;
  options.address = "127.0.0.1:0";
  static auto* const server =
      new jobscope::ProfilerServer(jobscope::ProfilerServer::Start(options));
  if (!*server) {
    std::fprintf(stderr, "%s\n", server->error().c_str());
    return 2;
  }
  if (way == "hung" && !RegisterOneThatStopsBy(&Hang)) return 3;
  if (way == "ended" && !RegisterOneThatStopsBy(&StopAndHang)) return 3;
  if (way == "stopping" && !RegisterOneThatStopsBy(&StopSlowly)) return 3;
  static auto* const gpu =
      way == "cuda" ? new jobscope::cuda::FakeGpu(FAKE_CUPTI, FAKE_CUDA) : nullptr;
  std::printf("%s\n", server->address().c_str());
  std::fflush(stdout);
  RecordUntilCaptured();
  if (gpu != nullptr) {  // a kernel that does not end
    gpu->Emit(jobscope::cuda::FakeGpu::Call(jobscope::cuda::kLaunchKernelCall,
                                            jobscope::cuda::FakeGpu::NextCorrelation(),
                                            jobscope::cuda::RealtimeNs()));
  }
  if (way == "thread") {
    std::thread([] { std::exit(0); }).join();
  }
  if (way == "stopping") std::thread([] { jobscope_server_stop(); }).detach();
  if (way == "stopping" || way == "ended") {
    while (!stops) std::this_thread::yield();
  }
  if (way == "exit") std::exit(0);
  return 0;
}
