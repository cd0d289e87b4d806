// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/step_pattern.h"

#include <algorithm>

namespace jobscope::host {
namespace {

// Minimum ratio of long to short distances. Something that ends several times per iteration leaves
// almost nothing in between, far beyond this ratio; a step that also writes a log line does not.
constexpr double kMinRatio = 4;
constexpr double kShortest = 1e-9;
constexpr size_t kMinLong = 8;
constexpr size_t kMaxPeriod = 64;
// Minimum share of regular distances between long steps; not 1, because a pause of the machine
// makes a short step long.
constexpr double kRegularShare = 0.8;

}  // namespace

std::optional<StepPattern> FindStepPattern(const std::vector<double>& lengths) {
  if (lengths.size() < 2 * kMinLong) return std::nullopt;
  std::vector<double> sorted = lengths;
  std::sort(sorted.begin(), sorted.end());
  // Index of the shortest long step.
  size_t first_long = 0;
  double widest = kMinRatio;
  for (size_t i = 1; i + kMinLong <= sorted.size(); ++i) {
    const double ratio = sorted[i] / std::max(sorted[i - 1], kShortest);
    if (ratio < widest) continue;
    first_long = i;
    widest = ratio;
  }
  if (first_long == 0) return std::nullopt;
  std::vector<size_t> distances;
  std::optional<size_t> last;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < sorted[first_long]) continue;
    if (last.has_value()) distances.push_back(i - *last);
    last = i;
  }
  std::vector<size_t> ordered = distances;
  std::sort(ordered.begin(), ordered.end());
  const size_t period = ordered[ordered.size() / 2];
  const auto regular = std::count(distances.begin(), distances.end(), period);
  if (period < 2 || period > kMaxPeriod ||
      static_cast<double>(regular) < kRegularShare * static_cast<double>(distances.size())) {
    return std::nullopt;
  }
  return StepPattern{period, sorted[(first_long + sorted.size()) / 2], sorted[first_long / 2]};
}

}  // namespace jobscope::host
