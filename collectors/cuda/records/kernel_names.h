// SPDX-License-Identifier: Apache-2.0
//
// Names of kernels and of API calls, as a trace shows them.
#ifndef COLLECTORS_CUDA_RECORDS_KERNEL_NAMES_H_
#define COLLECTORS_CUDA_RECORDS_KERNEL_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace jobscope::cuda {

// Longest name in a trace; some templates' names are tens of kilobytes long.
inline constexpr size_t kMaxNameBytes = 4096;

// The demangled name without a leading "void ", which XProf would take for a part of the name; cut
// at kMaxNameBytes. What is no mangled name stays as it is.
std::string KernelName(std::string_view symbol);

// The part of a kernel's name before its template arguments and parameters.
std::string ShortKernelName(std::string_view name);

// "cudaLaunchKernel", from CUPTI's "cudaLaunchKernel_v7000" or "cudaLaunchKernel_ptsz_v7000".
std::string ApiName(std::string_view callback_name);

// Whether a call of this name makes GPUs run kernels.
bool IsLaunch(std::string_view api_name);

// Whether a call of this name begins (+1) or ends (-1) the recording of a stream's calls as a
// graph; 0: neither. Launches between the two run nothing.
int GraphRecording(std::string_view api_name);

// Each kernel symbol of a session, demangled once.
class KernelNames {
 public:
  // Null is a name too: "kernel". The string is copied; it is read up to 64 KiB.
  uint32_t Find(const char* symbol);
  const std::string& Name(uint32_t index) const { return names_[index].name; }
  const std::string& LaunchName(uint32_t index) const { return names_[index].launch; }
  size_t size() const { return names_.size(); }

 private:
  struct Entry {
    std::string name;
    std::string launch;
  };
  absl::flat_hash_map<std::string, uint32_t> by_symbol_;
  std::vector<Entry> names_;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_KERNEL_NAMES_H_
