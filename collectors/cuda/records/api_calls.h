// SPDX-License-Identifier: Apache-2.0
//
// Describes calls of the CUDA runtime and driver by their names.
#ifndef COLLECTORS_CUDA_RECORDS_API_CALLS_H_
#define COLLECTORS_CUDA_RECORDS_API_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "collectors/cuda/libraries/cupti_api.h"

namespace jobscope::cuda {

// Returns "cudaLaunchKernel" for CUPTI's "cudaLaunchKernel_v7000" or "cudaLaunchKernel_ptsz_v7000".
std::string ApiName(std::string_view callback_name);

// Returns whether a call of this name launches kernels.
bool IsLaunch(std::string_view api_name);

// Returns whether a call of this name never causes work on the GPU: queries, waits, events.
bool IsWithoutWork(std::string_view api_name);

// Returns +1 if a call of this name begins recording a stream's calls as a graph, -1 if it ends
// this, else 0. Launches between the two run nothing.
int GraphRecording(std::string_view api_name);

// A function of the runtime or the driver, such as "cudaLaunchKernel".
struct ApiCall {
  std::string name;
  bool launches = false;
  bool may_have_work = true;
  int graph_recording = 0;  // GraphRecording
  bool of_graphs = false;   // creates, changes or launches CUDA graphs
};

// Asks CUPTI for the name of each function once. Belongs to the collector's thread.
class ApiCalls {
 public:
  // Bounds the functions: several times those of CUDA. A damaged record may have any number.
  static constexpr size_t kMaxCalls = 8192;

  explicit ApiCalls(const CuptiApi* api) : api_(api) {}
  ApiCalls(const ApiCalls&) = delete;
  ApiCalls& operator=(const ApiCalls&) = delete;

  // Returns the function of a callback id; "other CUDA calls" beyond kMaxCalls. The reference stays
  // valid as long as this object.
  const ApiCall& Of(bool driver, uint32_t id);

 private:
  const CuptiApi* const api_;
  std::map<uint64_t, ApiCall> calls_;
  const ApiCall others_{"other CUDA calls"};
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_API_CALLS_H_
