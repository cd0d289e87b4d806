// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/cuda_options.h"

#include "absl/strings/numbers.h"
#include "collectors/cuda/tracing/buffer_pool.h"
#include "common/process/own_environment.h"

namespace jobscope {
namespace {

std::string Environment(const char* name) { return OwnVariable(name).value_or(""); }

}  // namespace

CudaCollectorOptions CudaCollectorOptions::FromEnvironment() {
  CudaCollectorOptions options;
  options.cupti_library = Environment("JOBSCOPE_CUPTI_LIBRARY");
  const auto megabytes = [](const char* name, uint64_t least, uint64_t* bytes) {
    uint64_t number = 0;
    if (absl::SimpleAtoi(Environment(name), &number) && number >= least &&
        number <= (cuda::BufferPool::kMaxBuffers * cuda::BufferPool::kBufferBytes) >> 20) {
      *bytes = number << 20;
    }
  };
  megabytes("JOBSCOPE_CUDA_BUFFER_MB", 1, &options.buffer_bytes);
  megabytes("JOBSCOPE_CUDA_DEVICE_BUFFER_MB", 8, &options.device_buffer_bytes);
  options.unified_memory = Environment("JOBSCOPE_CUDA_UNIFIED_MEMORY") == "1";
  options.finalize = cuda::ParseFinalizeChoice(Environment("JOBSCOPE_CUPTI_FINALIZE"));
  return options;
}

}  // namespace jobscope
