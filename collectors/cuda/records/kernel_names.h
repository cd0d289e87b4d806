// SPDX-License-Identifier: Apache-2.0
//
// Formats names of kernels for a trace.
#ifndef COLLECTORS_CUDA_RECORDS_KERNEL_NAMES_H_
#define COLLECTORS_CUDA_RECORDS_KERNEL_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/containers/hash_table.h"

namespace jobscope::cuda {

// Maximum length of a name in a trace; some templates' names have tens of kilobytes.
inline constexpr size_t kMaxNameBytes = 4096;

// Returns the demangled name without a leading "void ", which XProf would take as part of the name;
// cut at kMaxNameBytes. Returns names that are not mangled unchanged.
std::string KernelName(std::string_view symbol);

// Returns the part of a kernel's name before its template arguments and parameters.
std::string ShortKernelName(std::string_view name);

// Demangles and stores each kernel symbol of a session once.
class KernelNames {
 public:
  // Bounds the symbols and their names: a program may compile kernels in each step. Further ones
  // share the name "other kernels".
  static constexpr size_t kMaxBytes = size_t{32} << 20;

  // Returns the index of a symbol's name; null becomes "kernel". Copies the string, up to 64 KiB.
  uint32_t Find(const char* symbol);
  // Number of calls of Find that returned "other kernels".
  uint64_t unnamed() const { return unnamed_; }
  const std::string& Name(uint32_t index) const { return names_[index].name; }
  const std::string& LaunchName(uint32_t index) const { return names_[index].launch; }
  size_t size() const { return names_.size(); }

 private:
  struct Entry {
    std::string name;
    std::string launch;
  };
  uint32_t Add(Entry entry);

  HashMap<std::string, uint32_t> by_symbol_;
  std::vector<Entry> names_;
  size_t bytes_ = 0;                // of both
  std::optional<uint32_t> others_;  // index of "other kernels"
  uint64_t unnamed_ = 0;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_KERNEL_NAMES_H_
