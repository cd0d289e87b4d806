// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/bound.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "analysis/blame/advice.h"
#include "analysis/blame/bounds.h"
#include "analysis/statistics/statistics.h"
#include "analysis/verdict/cause.h"
#include "analysis/verdict/common_times.h"
#include "analysis/verdict/culprits.h"
#include "analysis/verdict/doubt.h"

namespace jobscope::analysis {
namespace {

// Returns the time per step in which the device of the workers does nothing, if that is known. In
// input waits only its kernels are.
std::optional<double> DeviceIdleMs(const CommonTimes& times) {
  if (!times.recorded[Index(StepClass::kDeviceCompute)]) return std::nullopt;
  double idle_ms = Mean(times.steps);
  for (const StepClass busy : {StepClass::kDeviceCompute, StepClass::kDeviceCopy,
                               StepClass::kWaiting, StepClass::kTransfer}) {
    idle_ms -= Mean(times.classes[Index(busy)]);
  }
  return idle_ms;
}

StepClass LargestOf(const CommonTimes& times) {
  size_t largest = Index(StepClass::kUnexplained);
  for (size_t c = 0; c < kStepClasses; ++c) {
    if (times.recorded[c] && Mean(times.classes[c]) > Mean(times.classes[largest])) largest = c;
  }
  return static_cast<StepClass>(largest);
}

// Returns the workers that record what their device does.
std::vector<size_t> WithDevice(const std::vector<size_t>& workers, const Report& report) {
  std::vector<size_t> with_device;
  std::copy_if(workers.begin(), workers.end(), std::back_inserter(with_device),
               [&](size_t w) { return report.workers[w].view.Knows(StepClass::kDeviceCompute); });
  return with_device;
}

bool IdlesDevice(const std::optional<StepClass>& bound, const Shares& shares) {
  return bound == StepClass::kLaunch || (bound == StepClass::kHost && IsMendable(*bound, shares));
}

}  // namespace

Finding BoundOfWorkers(const std::vector<size_t>& workers, const Report& report) {
  Finding finding;
  finding.kind = Finding::Kind::kBalanced;
  finding.rare = report.rare;
  CommonTimes times = TimesOf(workers, report);
  const double step_ms = Mean(times.steps);
  finding.step_ms = step_ms;
  if (step_ms <= 0) return finding;
  const Shares shares = SharesOf(times);
  const std::optional<StepClass> bound = ChooseBound(shares);
  if (IdlesDevice(bound, shares)) {
    // Of the others the device may have computed meanwhile.
    const std::vector<size_t> with_device = WithDevice(workers, report);
    if (!with_device.empty() && with_device.size() < workers.size()) {
      return BoundOfWorkers(with_device, report);
    }
  }
  if (bound.has_value()) finding.kind = Finding::Kind::kBound;
  finding.step_class = bound.has_value() ? *bound : LargestOf(times);
  finding.class_ms = Mean(times.classes[Index(*finding.step_class)]);
  if (!bound.has_value() && finding.step_class == StepClass::kDeviceCompute) {
    times.recorded[Index(StepClass::kDeviceCompute)] = false;
    finding.next_class = LargestOf(times);
    finding.next_ms = Mean(times.classes[Index(*finding.next_class)]);
  }
  finding.names = FindCulprits(*finding.step_class, *finding.class_ms, workers, {}, report);
  NameSleep(workers, {}, report, &finding);
  if (!bound.has_value() || !IsMendable(*bound, shares)) return finding;
  if (IdlesDevice(bound, shares)) {
    finding.device_idle_ms = DeviceIdleMs(times);
  }
  // Upper limit of the gain: the class takes no time at all.
  const Range gain = BootstrapRatio(times.in_class[Index(*bound)], times.all);
  finding.gain = *finding.class_ms / step_ms;
  finding.mended_step_ms = step_ms - *finding.class_ms;
  finding.gain_low = gain.low;
  finding.gain_high = gain.high;
  return finding;
}

Finding BoundOfAll(const std::vector<size_t>& workers, const Report& report) {
  Finding finding = BoundOfWorkers(workers, report);
  if (!finding.step_class.has_value()) {
    return Undecidable("the steps take no time", kAdviceEmptySteps);
  }
  const std::string losses = WhyLossesDecide(workers, finding, report);
  if (!losses.empty()) return Undecidable(losses, kAdviceLosses);
  if (workers.size() == 1) {
    if (finding.kind == Finding::Kind::kBound && finding.step_class == StepClass::kTransfer &&
        TransferIsUnsure(workers, report)) {
      return WaitOrLink(workers.front(), report);
    }
    finding.workers = workers;
    return finding;
  }
  if (finding.kind != Finding::Kind::kBound) return finding;
  const bool communication =
      *finding.step_class == StepClass::kTransfer || *finding.step_class == StepClass::kWaiting;
  const size_t unknown = UnknownWorkers(report);
  const size_t left_out = unknown - report.missing.size();
  if (communication && unknown > 0) {
    return Undecidable(
        absl::StrFormat("the workers spend %.0f %% of their steps in collectives, and %d of %d "
                        "workers are missing%s: it is unknown whether these are slow or the link "
                        "is",
                        100 * *finding.class_ms / *finding.step_ms, unknown,
                        report.expected_workers, left_out > 0 ? " or recorded too few steps" : ""),
        left_out > 0 ? kAdviceMissingSteps : kAdviceMissing);
  }
  if (*finding.step_class == StepClass::kTransfer && TransferIsUnsure(workers, report)) {
    return Undecidable(
        absl::StrFormat("the workers spend %.0f %% of their steps in collectives, most of it where "
                        "members are not recorded: it is unknown whether these are slow or the "
                        "link is",
                        100 * *finding.class_ms / *finding.step_ms),
        kAdviceMembers);
  }
  // The computation itself, or time that is not recorded, bounds nobody.
  if (!finding.gain.has_value()) finding.kind = Finding::Kind::kBalanced;
  return finding;
}

}  // namespace jobscope::analysis
