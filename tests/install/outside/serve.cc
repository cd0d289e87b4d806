// SPDX-License-Identifier: Apache-2.0
#include <jobscope/capture.h>
#include <jobscope/profiler_server.h>
#include <jobscope/trace.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  jobscope::ProfilerServerOptions options;
  options.address = "127.0.0.1:0";
  const jobscope::ProfilerServer server = jobscope::ProfilerServer::Start(options);
  if (!server) {
    std::fprintf(stderr, "start: %s\n", server.error().c_str());
    return 1;
  }
  const jobscope::CaptureResult started = jobscope::StartCapture(argv[1]);
  if (!started) {
    std::fprintf(stderr, "capture: %s\n", started.error().c_str());
    return 1;
  }
  for (int i = 0; i < 10; ++i) {
    JOBSCOPE_SCOPE("outside");
  }
  const jobscope::CaptureResult result = jobscope::StopCapture();
  if (!result || result.events() < 10) {
    std::fprintf(stderr, "result: %s, %llu events\n", result.error().c_str(),
                 static_cast<unsigned long long>(result.events()));
    return 1;
  }
  std::printf("served at %s\n", server.address().c_str());
  return 0;
}
