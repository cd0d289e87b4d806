// SPDX-License-Identifier: Apache-2.0
#include "analysis/blame/blame.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "analysis/blame/latest.h"
#include "analysis/statistics/statistics.h"
#include "analysis/statistics/thresholds.h"

namespace jobscope::analysis {
namespace {

// Durations of all steps as recorded, and as they would be after a fix.
struct StepTimes {
  std::vector<double> now;
  std::vector<double> mended;
};

StepTimes Mend(const OwnTimes& times, const std::vector<size_t>& workers) {
  const size_t count = times.own_ns.size();
  std::vector<bool> mended(count, false);
  for (const size_t worker : workers) mended[worker] = true;
  StepTimes result;
  for (size_t s = 0; s < times.transfer_ns.size(); ++s) {
    double largest = 0;
    double largest_other = 0;
    for (size_t w = 0; w < count; ++w) {
      largest = std::max(largest, times.own_ns[w][s]);
      if (mended[w]) continue;
      largest_other = std::max(largest_other, times.own_ns[w][s]);
    }
    // After a fix nobody is slower than the slowest of the others, let alone than their median.
    const double rest = workers.size() == count ? largest : largest_other;
    result.now.push_back(largest + times.transfer_ns[s]);
    result.mended.push_back(rest + times.transfer_ns[s]);
  }
  return result;
}

// Returns the workers above the widest gap between the sorted means: at most half of all, a node,
// or a model of GPU. For more than half, the times do not show whether they are slow or the others
// fast.
std::vector<size_t> AboveTheGap(const OwnTimes& times, const std::vector<double>& means) {
  std::vector<size_t> order(means.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return means[a] > means[b]; });
  std::vector<size_t> above;
  std::vector<size_t> widest;
  double most = 1 + kMinExcessOfFew;
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    above.push_back(order[i]);
    if (means[order[i]] <= most * means[order[i + 1]]) continue;
    if (2 * above.size() > order.size() && !IsNode(times, above) && !IsGpuModel(times, above)) {
      continue;
    }
    most = means[order[i]] / means[order[i + 1]];
    widest = above;
  }
  std::sort(widest.begin(), widest.end());
  return widest;
}

// Returns the workers whose mean own time stands out.
std::vector<size_t> Outliers(const OwnTimes& times) {
  const std::vector<double> means = MeanOwn(times);
  std::vector<size_t> outliers;
  if (means.size() >= kFewWorkers) {
    const double median = Median(means);
    const double spread = std::max(ScaledMad(means, median), kMinSpread * median);
    for (size_t w = 0; w < means.size(); ++w) {
      if (means[w] - median > kMinZScore * spread) outliers.push_back(w);
    }
  }
  // If about half of the workers are slow, their times decide median and spread, and none is an
  // outlier.
  return outliers.empty() ? AboveTheGap(times, means) : outliers;
}

// Returns what fixing each worker alone would gain: it shortens the steps in which it is the
// slowest.
std::vector<double> GainsAlone(const OwnTimes& times) {
  const double total = std::accumulate(times.step_ns.begin(), times.step_ns.end(), 0.0);
  std::vector<double> gains(times.own_ns.size(), 0);
  const Delays delays = DelaysOf(times);
  for (size_t s = 0; s < delays.delay_ns.size(); ++s) {
    gains[delays.worker[s]] += total > 0 ? delays.delay_ns[s] / total : 0;
  }
  return gains;
}

// Groups first by GPU model, then by node: if all workers with a model stand out, on several nodes,
// and there are others, the finding is the model's; likewise the node's. A worker that gains too
// little alone is left out.
std::vector<Straggler> Grouped(const OwnTimes& times, const std::vector<size_t>& outliers) {
  std::vector<Straggler> groups;
  std::map<std::string, std::vector<size_t>> of_model;
  for (const size_t w : outliers) {
    of_model[times.gpu_models.empty() ? std::string() : times.gpu_models[w]].push_back(w);
  }
  std::map<std::string, std::vector<size_t>> of_node;
  for (const auto& [model, workers] : of_model) {
    const std::string& node = times.nodes[workers.front()];
    const bool several_nodes = std::any_of(workers.begin(), workers.end(),
                                           [&](size_t w) { return times.nodes[w] != node; });
    if (several_nodes && IsGpuModel(times, workers)) {
      Straggler group = WorthOf(times, workers);
      group.gpu_model = model;
      groups.push_back(std::move(group));
      continue;
    }
    for (const size_t w : workers) of_node[times.nodes[w]].push_back(w);
  }
  const std::vector<double> alone = GainsAlone(times);
  for (auto& [node, workers] : of_node) {
    std::sort(workers.begin(), workers.end());
    if (IsNode(times, workers)) {
      Straggler group = WorthOf(times, workers);
      group.node = node;
      groups.push_back(std::move(group));
      continue;
    }
    for (const size_t worker : workers) {
      if (alone[worker] >= kMinGain) groups.push_back(WorthOf(times, {worker}));
    }
  }
  return groups;
}

bool Passes(const OwnTimes& times, const Straggler& straggler) {
  // The more equal workers there are, the farther out is the farthest one.
  const double significance =
      std::sqrt(2 * std::log(static_cast<double>(times.own_ns.size()) / kFalseAlarm));
  return straggler.gain >= kMinGain && straggler.gain_low >= kMinGainLow &&
         straggler.significance >= significance;
}

// Returns how far `workers` are above the others, step by step, relative to how much that varies.
double Significance(const OwnTimes& times, const std::vector<size_t>& workers) {
  std::vector<bool> slow(times.own_ns.size(), false);
  for (const size_t worker : workers) slow[worker] = true;
  std::vector<double> excess;
  std::vector<double> others;
  for (size_t s = 0; s < times.transfer_ns.size(); ++s) {
    double sum = 0;
    others.clear();
    for (size_t w = 0; w < slow.size(); ++w) {
      if (slow[w]) {
        sum += times.own_ns[w][s];
      } else {
        others.push_back(times.own_ns[w][s]);
      }
    }
    excess.push_back(sum / static_cast<double>(workers.size()) - Median(others));
  }
  if (excess.size() < 2) return 0;
  const double mean = Mean(excess);
  double squares = 0;
  for (const double value : excess) squares += (value - mean) * (value - mean);
  const auto count = static_cast<double>(excess.size());
  const double error = std::sqrt(squares / (count - 1) / count);
  constexpr double kCertain = 1e9;
  return error > 0 ? std::min(kCertain, mean / error) : (mean > 0 ? kCertain : 0);
}

// Adds all outliers as one finding if fixing them together gains so much more than the best of
// `found` that each hides behind the others. A worker that is far slower than the next one is the
// answer alone.
void AddTogether(const OwnTimes& times, const std::vector<size_t>& outliers,
                 std::vector<Straggler>* found) {
  if (outliers.size() < 2) return;
  const double best = found->empty() ? 0 : found->front().gain;
  Straggler together = WorthOf(times, outliers);
  if (together.gain < kTogetherOverBest * best || !Passes(times, together)) return;
  found->insert(found->begin(), std::move(together));
}

// Adds who is late now and then, but more often than chance has it.
void AddLatest(const OwnTimes& times, std::vector<Straggler>* found) {
  const std::optional<Latest> latest = FindLatest(times);
  if (!latest.has_value() || !latest->significant) return;
  Straggler straggler = WorthOf(times, latest->workers);
  if (straggler.gain < kMinGain || straggler.gain_low < kMinGainLow) return;
  straggler.node = latest->node;
  straggler.late_steps = latest->late_steps;
  found->push_back(std::move(straggler));
}

// Adds the step in which one worker loses most, if that step alone is worth a finding.
void AddSingleSteps(const OwnTimes& times, std::vector<Straggler>* found) {
  std::set<size_t> named;
  for (const Straggler& straggler : *found) {
    named.insert(straggler.workers.begin(), straggler.workers.end());
  }
  const double total = std::accumulate(times.step_ns.begin(), times.step_ns.end(), 0.0);
  if (times.own_ns.size() < 2 || total <= 0) return;
  const Delays delays = DelaysOf(times);
  const auto longest = std::max_element(delays.delay_ns.begin(), delays.delay_ns.end());
  Straggler single;
  single.single = true;
  single.step = static_cast<size_t>(longest - delays.delay_ns.begin());
  single.workers = {delays.worker[single.step]};
  if (*longest / total < kMinSingleGain || named.count(single.workers.front()) != 0) return;
  const auto steps = static_cast<double>(times.step_ns.size());
  single.step_ns = total / steps;
  single.mended_step_ns = (total - *longest) / steps;
  single.gain = *longest / total;
  single.gain_high = single.gain;
  found->push_back(std::move(single));
}

}  // namespace

Straggler WorthOf(const OwnTimes& times, std::vector<size_t> workers) {
  const StepTimes steps = Mend(times, workers);
  Straggler straggler;
  straggler.workers = std::move(workers);
  straggler.step_ns = Mean(times.step_ns);
  if (straggler.step_ns <= 0) return straggler;
  std::vector<double> saved(steps.now.size());
  for (size_t s = 0; s < saved.size(); ++s) saved[s] = steps.now[s] - steps.mended[s];
  straggler.gain = Mean(saved) / straggler.step_ns;
  straggler.mended_step_ns = straggler.step_ns - Mean(saved);
  straggler.at_most =
      std::fabs(Mean(steps.now) - straggler.step_ns) > kMaxModelError * straggler.step_ns;
  const Range range = BootstrapRatio(saved, times.step_ns);
  straggler.gain_low = range.low;
  straggler.gain_high = range.high;
  straggler.significance = Significance(times, straggler.workers);
  return straggler;
}

std::vector<Straggler> FindStragglers(const OwnTimes& times, const OwnTimes& measured) {
  const std::vector<size_t> outliers = Outliers(times);
  std::vector<Straggler> found;
  if (!outliers.empty() && outliers.size() < times.own_ns.size()) {
    std::vector<Straggler> groups = Grouped(times, outliers);
    for (Straggler& group : groups) {
      if (Passes(times, group)) found.push_back(std::move(group));
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Straggler& a, const Straggler& b) { return a.gain > b.gain; });
    AddTogether(times, outliers, &found);
  }
  if (found.empty()) AddLatest(times, &found);
  AddSingleSteps(measured, &found);
  return found;
}

}  // namespace jobscope::analysis
