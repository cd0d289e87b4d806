// SPDX-License-Identifier: Apache-2.0
//
// Another profiler in the process: it traces by CUPTI's activity API without a subscription, with
// buffers of 4 MiB that it allocates when CUPTI asks, as PyTorch's (Kineto) does.
#ifndef TESTS_GPU_WORKER_CUPTI_CLIENT_H_
#define TESTS_GPU_WORKER_CUPTI_CLIENT_H_

#include <cstdint>
#include <string>

namespace jobscope::gpu_test {

class CuptiClient {
 public:
  // Opens the library, registers buffers, enables the kinds. Returns an empty string, or what went
  // wrong.
  std::string Start(const std::string& path);
  std::string Stop(int64_t* kernels);
  bool running() const { return library_ != nullptr; }

 private:
  void* library_ = nullptr;
};

}  // namespace jobscope::gpu_test

#endif  // TESTS_GPU_WORKER_CUPTI_CLIENT_H_
