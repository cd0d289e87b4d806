// SPDX-License-Identifier: Apache-2.0
//
// Makes a recording with the record builder, for the reader's test on machines without recordings
// of a real GPU.
#ifndef TESTS_COLLECTORS_CUDA_RECORDINGS_HANDMADE_RECORDING_H_
#define TESTS_COLLECTORS_CUDA_RECORDINGS_HANDMADE_RECORDING_H_

#include <cstdint>
#include <vector>

#include "tests/collectors/cuda/record_builder.h"
#include "tests/collectors/cuda/recordings/recording.h"

namespace jobscope::cuda {

// Two buffers: 20 launches with their kernels; then one record of each other type.
inline Recording HandmadeRecording() {
  constexpr uint32_t kVersion = 130001;
  constexpr uint64_t kName = 0x7f00'1234'5000;  // where the name stood in a process that never was
  constexpr uint64_t kBeginNs = 1'700'000'000'000'000'000;
  Recording recording;
  recording.version = kVersion;
  recording.origin = "handmade by make_recording: no GPU, no CUPTI";
  recording.strings[kName] = "_Z6vecAddPKfS0_Pfi";

  std::vector<Bytes> records;
  for (uint32_t i = 0; i < 20; ++i) {
    Activity call;
    call.type = ActivityType::kApi;
    call.call = 211;  // cudaLaunchKernel
    call.correlation = 100 + i;
    call.thread = 4000 + i % 2;
    call.start_ns = kBeginNs + i * 20'000;
    call.end_ns = call.start_ns + 3'000;
    records.push_back(Encode(call, kVersion));
    Activity kernel = OneOfEach()[static_cast<size_t>(ActivityType::kKernel)];
    kernel.correlation = call.correlation;
    kernel.start_ns = call.start_ns + 5'000;
    kernel.end_ns = kernel.start_ns + 10'000;
    kernel.name = nullptr;
    Bytes bytes = Encode(kernel, kVersion);
    std::memcpy(bytes.data() + layout::kernel::kName, &kName, sizeof(kName));
    records.push_back(bytes);
  }
  recording.buffers.push_back(Join(records));

  records.clear();
  for (Activity activity : OneOfEach()) {
    if (activity.type == ActivityType::kKernel || activity.type == ActivityType::kUnifiedMemory) {
      continue;  // of the latter, CUPTI 13's stride is another
    }
    activity.name = nullptr;
    activity.details = nullptr;
    records.push_back(Encode(activity, kVersion));
  }
  recording.buffers.push_back(Join(records));
  return recording;
}

}  // namespace jobscope::cuda

#endif  // TESTS_COLLECTORS_CUDA_RECORDINGS_HANDMADE_RECORDING_H_
