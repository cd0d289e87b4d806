// SPDX-License-Identifier: Apache-2.0
#include "common/options/device_tracer.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace jobscope {
namespace {

constexpr DeviceTracer kAll[] = {DeviceTracer::kAuto, DeviceTracer::kJobscope,
                                 DeviceTracer::kFramework};
constexpr size_t kMaxShownBytes = 32;

}  // namespace

std::string_view DeviceTracerText(DeviceTracer tracer) {
  switch (tracer) {
    case DeviceTracer::kAuto:
      return "auto";
    case DeviceTracer::kJobscope:
      return "jobscope";
    case DeviceTracer::kFramework:
      return "framework";
  }
  return "auto";
}

absl::StatusOr<DeviceTracer> ParseDeviceTracer(std::string_view text) {
  if (text.empty()) return DeviceTracer::kAuto;
  for (const DeviceTracer tracer : kAll) {
    if (text == DeviceTracerText(tracer)) return tracer;
  }
  std::string shown(text.substr(0, kMaxShownBytes));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return absl::InvalidArgumentError(
      absl::StrCat("\"", shown, "\" is none of auto, jobscope, framework"));
}

}  // namespace jobscope
