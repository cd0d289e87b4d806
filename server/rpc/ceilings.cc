// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/ceilings.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/text/foreign_text.h"

namespace jobscope {

absl::Status ParseLevels(absl::string_view text, LevelCeilings* levels) {
  if (text.empty()) return absl::OkStatus();
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  // The highest levels that exist (recording_options.h).
  constexpr int kHighestLevels[] = {3, 1, 2};
  int* const outputs[] = {&levels->host, &levels->device, &levels->python};
  LevelCeilings parsed;
  int* const values[] = {&parsed.host, &parsed.device, &parsed.python};
  bool good = parts.size() == 3;
  for (size_t i = 0; good && i < 3; ++i) {
    good = parts[i].size() == 1 && absl::SimpleAtoi(parts[i], values[i]) && *values[i] >= 0 &&
           *values[i] <= kHighestLevels[i];
  }
  if (!good) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", Printable(text, 32),
        "\" must be the highest host, device and Python level, such as 3/1/2: 0 to ",
        kHighestLevels[0], ", 0 to ", kHighestLevels[1], ", 0 to ", kHighestLevels[2]));
  }
  for (size_t i = 0; i < 3; ++i) *outputs[i] = *values[i];
  return absl::OkStatus();
}

absl::Status OverCeiling(absl::string_view field, absl::string_view value,
                         absl::string_view ceiling, absl::string_view variable,
                         absl::string_view option) {
  return absl::PermissionDeniedError(absl::StrCat(
      field, " = ", value, " is over this worker's ceiling of ", ceiling,
      ": ask for less, or have the worker started with a higher ", variable, " (", option, ")"));
}

absl::Status CheckLevelCeilings(absl::string_view prefix, const RecordingOptions& recording,
                                const Ceilings& ceilings) {
  const struct {
    absl::string_view name;
    int asked;
    int ceiling;
  } each[] = {{"host_tracer_level", recording.host_tracer_level, ceilings.levels.host},
              {"device_tracer_level", recording.device_tracer_level, ceilings.levels.device},
              {"python_tracer_level", recording.python_tracer_level, ceilings.levels.python}};
  for (const auto& level : each) {
    if (level.asked <= level.ceiling) continue;
    return OverCeiling(absl::StrCat(prefix, level.name), absl::StrCat(level.asked),
                       absl::StrCat(level.ceiling), "JOBSCOPE_MAX_LEVELS=host/device/python",
                       "options.max_levels, such as 3/1/2");
  }
  return absl::OkStatus();
}

absl::Status CaptureRate::Take(absl::Time now) {
  if (per_minute_ == 0) return absl::OkStatus();
  const double per_second = per_minute_ / 60.0;
  const absl::MutexLock lock(&mutex_);
  // A clock that was set back gives no captures, and takes none.
  const double passed_s = std::max(0.0, absl::ToDoubleSeconds(now - filled_));
  left_ = std::min<double>(per_minute_, left_ + passed_s * per_second);
  filled_ = now;
  if (left_ >= 1) {
    left_ -= 1;
    return absl::OkStatus();
  }
  const absl::Duration wait = absl::Seconds((1 - left_) / per_second);
  return absl::ResourceExhaustedError(absl::StrCat(
      "this worker's ceiling of ", per_minute_, " captures per minute is reached: try again in ",
      absl::FormatDuration(absl::Ceil(wait, absl::Seconds(1))),
      ", or have the worker started with a higher JOBSCOPE_MAX_CAPTURES_PER_MINUTE "
      "(options.max_captures_per_minute)"));
}

void CaptureRate::GiveBack() {
  const absl::MutexLock lock(&mutex_);
  left_ = std::min<double>(per_minute_, left_ + 1);
}

}  // namespace jobscope
