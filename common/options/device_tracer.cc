// SPDX-License-Identifier: Apache-2.0
#include "common/options/device_tracer.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

constexpr DeviceTracer kAll[] = {DeviceTracer::kAuto, DeviceTracer::kJobscope,
                                 DeviceTracer::kFramework};

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
  return absl::InvalidArgumentError(absl::StrCat("\"", Printable({text.data(), text.size()}),
                                                 "\" is none of auto, jobscope, framework"));
}

}  // namespace jobscope
