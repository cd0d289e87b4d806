// SPDX-License-Identifier: Apache-2.0
//
// Parses CUDA_VISIBLE_DEVICES: which GPUs a process uses.
#ifndef COLLECTORS_NVML_VISIBLE_DEVICES_H_
#define COLLECTORS_NVML_VISIBLE_DEVICES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace jobscope::nvml {

// One entry: an index, or a prefix of a UUID ("GPU-8f6", "MIG-…").
struct VisibleDevice {
  std::optional<uint32_t> index;
  std::string uuid;
};

// Parses CUDA_VISIBLE_DEVICES as CUDA does: entries are separated by commas, and the first that is
// neither an index nor a UUID ends the list ("-1" hides all GPUs). nullopt: the variable is not
// set, nothing is hidden.
std::optional<std::vector<VisibleDevice>> ParseVisibleDevices(
    const std::optional<std::string>& text);

// Converts "MIG-GPU-<uuid>/<instance>/<compute instance>", the name of a MIG device before driver
// 470, to the GPU's own "GPU-<uuid>". Returns other texts unchanged.
std::string GpuOfOldMigName(std::string_view uuid);

}  // namespace jobscope::nvml

#endif  // COLLECTORS_NVML_VISIBLE_DEVICES_H_
