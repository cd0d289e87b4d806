// SPDX-License-Identifier: Apache-2.0
//
// A program that captures itself and leaves without ending that:
//   leaving_capture LOGDIR capture|steps|window|unopened|hung|stopping|serving [exit]
//   capture    StartCapture; steps: CaptureSteps, all of them done; window: in the middle of them;
//   unopened: before the first; hung: with a collector that never ends its part; stopping: while
//   another thread is in StopCapture; serving: as a worker whose port directory, LOGDIR, then
//   hangs. By return from main, or by exit() in another thread.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "jobscope/capture.h"
#include "jobscope/profiler_server.h"
#include "jobscope/provider.h"
#include "jobscope/trace.h"
#include "tests/hanging_files.h"

namespace {

int Hang(void*, const jobscope_provider_session*, char*, size_t) {
  for (;;) pause();
}

bool RegisterOneThatHangs() {
  jobscope_provider provider = {};
  provider.size = sizeof(provider);
  provider.name = "hung";
  provider.stop = &Hang;
  return jobscope_provider_register(&provider, nullptr, 0) == JOBSCOPE_OK;
}

bool Serve(const char* ports) {
  setenv("JOBSCOPE_PORT_DIR", ports, 1);
  jobscope::ProfilerServerOptions options;
  options.address = "127.0.0.1:0";
  static auto* const server =
      new jobscope::ProfilerServer(jobscope::ProfilerServer::Start(options));
  return bool{*server};
}

void Train(int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; ++step) {
    JOBSCOPE_STEP("train", step);
    JOBSCOPE_SCOPE("work");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string way = argv[2];
  alarm(60);  // an exit may hang
  if (way == "hung" && !RegisterOneThatHangs()) return 3;
  if (way == "serving" && !Serve(argv[1])) return 3;
  const bool by_steps = way == "steps" || way == "window" || way == "unopened";
  const jobscope::CaptureResult started =
      by_steps ? jobscope::CaptureSteps(argv[1], 10, 20) : jobscope::StartCapture(argv[1]);
  if (!started.ok()) {
    std::fprintf(stderr, "%s\n", started.error().c_str());
    return 4;
  }
  Train(1, way == "window" ? 15 : way == "unopened" ? 5 : 30);
  if (way == "serving") jobscope::g_files.Hang({".addr"});
  if (way == "stopping") std::thread([] { (void)jobscope::StopCapture(); }).detach();
  if (argc > 3) std::thread([] { std::exit(0); }).join();
  return 0;
}
