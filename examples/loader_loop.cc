// SPDX-License-Identifier: Apache-2.0
//
// Runs a training loop over a slow loader, marked by jobscope::Steps, that captures itself: 6 ms of
// waiting and 2 ms of computing per step. Prints its own measurements.
//
//   loader_loop LOGDIR
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include "jobscope/capture.h"
#include "jobscope/steps.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBatches = 60;
constexpr std::chrono::milliseconds kLoad{6};
constexpr std::chrono::milliseconds kCompute{2};

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

class Loader {
 public:
  std::optional<int> Next() {
    if (next_ == kBatches) return std::nullopt;
    const Clock::time_point begin = Clock::now();
    std::this_thread::sleep_for(kLoad);
    waited_s_ += Seconds(Clock::now() - begin);
    return next_++;
  }
  double waited_s() const { return waited_s_; }

 private:
  int next_ = 0;
  double waited_s_ = 0;
};

void Train() {
  const Clock::time_point end = Clock::now() + kCompute;
  while (Clock::now() < end) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: loader_loop LOGDIR\n");
    return 2;
  }
  Loader loader;
  jobscope::StartCapture(argv[1]);
  const Clock::time_point begin = Clock::now();
  for (const auto& step : jobscope::Steps([&] { return loader.Next(); })) {
    (void)step;
    Train();
  }
  const double took_s = Seconds(Clock::now() - begin);
  const jobscope::CaptureResult result = jobscope::StopCapture();
  if (!result.ok()) {
    std::fprintf(stderr, "loader_loop: %s\n", result.error().c_str());
    return 1;
  }
  std::printf(R"({"run_directory": "%s", "took_s": %.6f, "waited_s": %.6f, "steps": %d})"
              "\n",
              result.run_directory().c_str(), took_s, loader.waited_s(), kBatches);
  return 0;
}
