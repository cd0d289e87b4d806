// SPDX-License-Identifier: Apache-2.0
//
// Another client of CUPTI in the process, as nsys or torch.profiler would be.
#ifndef TESTS_GPU_WORKER_CUPTI_SUBSCRIBER_H_
#define TESTS_GPU_WORKER_CUPTI_SUBSCRIBER_H_

#include <string>

namespace jobscope::gpu_test {

class CuptiSubscriber {
 public:
  // Opens the library, and subscribes: under `name` where the library has names (13.0 and later);
  // empty: without one, as PyTorch does.
  // Returns an empty string, or what went wrong.
  std::string Subscribe(const std::string& path, const std::string& name);
  std::string Unsubscribe();

 private:
  void* library_ = nullptr;
  void* subscriber_ = nullptr;
};

}  // namespace jobscope::gpu_test

#endif  // TESTS_GPU_WORKER_CUPTI_SUBSCRIBER_H_
