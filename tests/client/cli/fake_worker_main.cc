// SPDX-License-Identifier: Apache-2.0
//
// A fake worker as a process of its own, to be stopped and killed. Prints its address, then
// "recording" whenever it begins to; serves until it is killed. Arguments: "stock" for a worker
// that speaks tensorflow.ProfilerService only; "any" to listen on all
// addresses of this machine; "big=N" for answers of N MiB.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/client/fake_worker.h"

int main(int argc, char** argv) {
  jobscope::FakeWorker::Behavior behavior;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "stock") behavior.native = false;
    if (argument == "any") behavior.listen = "0.0.0.0:0";
    if (argument.rfind("big=", 0) == 0) {
      const size_t bytes = std::strtoul(argument.c_str() + 4, nullptr, 10) << 20;
      behavior.answer = [bytes](const tensorflow::ProfileRequest& request, bool) {
        tensorflow::ProfileResponse response;
        *response.mutable_xspace() = jobscope::MakeTrace(10, request.host_name());
        auto& metadata =
            (*response.mutable_xspace()->mutable_planes(0)->mutable_event_metadata())[1];
        metadata.set_metadata(std::string(bytes, 'x'));
        return jobscope::FakeWorker::Answer{grpc::Status::OK, response.SerializeAsString()};
      };
    }
  }
  behavior.on_recording = [] {
    std::printf("recording\n");
    std::fflush(stdout);
  };
  const jobscope::FakeWorker worker(behavior);
  std::printf("%s\n", worker.address().c_str());
  std::fflush(stdout);
  while (true) pause();
}
