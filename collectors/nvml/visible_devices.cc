// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvml/visible_devices.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace jobscope::nvml {
namespace {

constexpr std::string_view kOldMig = "MIG-GPU-";
// Bounds the foreign list; exceeds the GPUs of a machine.
constexpr size_t kMaxEntries = 256;

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

}  // namespace

std::optional<std::vector<VisibleDevice>> ParseVisibleDevices(
    const std::optional<std::string>& text) {
  if (!text.has_value()) return std::nullopt;
  std::vector<VisibleDevice> devices;
  for (const absl::string_view part : absl::StrSplit(*text, ',')) {
    const std::string entry(absl::StripAsciiWhitespace(part));
    VisibleDevice device;
    uint32_t index = 0;
    if (absl::SimpleAtoi(entry, &index)) {
      device.index = index;
    } else if (StartsWith(entry, "GPU-") || StartsWith(entry, "MIG-")) {
      device.uuid = entry;
    } else {
      break;
    }
    devices.push_back(std::move(device));
    if (devices.size() >= kMaxEntries) break;
  }
  return devices;
}

std::string GpuOfOldMigName(std::string_view uuid) {
  if (!StartsWith(uuid, kOldMig)) return std::string(uuid);
  const std::string_view gpu = uuid.substr(4);
  return std::string(gpu.substr(0, gpu.find('/')));
}

}  // namespace jobscope::nvml
