// SPDX-License-Identifier: Apache-2.0
//
// CUDA_VISIBLE_DEVICES: which GPUs a process means to use.
#ifndef COLLECTORS_NVML_VISIBLE_DEVICES_H_
#define COLLECTORS_NVML_VISIBLE_DEVICES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace jobscope::nvml {

// One entry: an index, or the begin of a UUID ("GPU-8f6", "MIG-…").
struct VisibleDevice {
  std::optional<uint32_t> index;
  std::string uuid;
};

// As CUDA reads it: entries are separated by commas, and the first that is neither an index nor a
// UUID ends the list ("-1" hides all GPUs). nullopt: the variable is not set, nothing is hidden.
std::optional<std::vector<VisibleDevice>> ParseVisibleDevices(
    const std::optional<std::string>& text);

// "MIG-GPU-<uuid>/<instance>/<compute instance>", as drivers before 470 named MIG devices: the
// GPU's own "GPU-<uuid>". Other texts as they are.
std::string GpuOfOldMigName(std::string_view uuid);

}  // namespace jobscope::nvml

#endif  // COLLECTORS_NVML_VISIBLE_DEVICES_H_
