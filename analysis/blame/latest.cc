// SPDX-License-Identifier: Apache-2.0
#include "analysis/blame/latest.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "analysis/statistics/statistics.h"
#include "analysis/statistics/thresholds.h"

namespace jobscope::analysis {
namespace {

// Each worker is a group.
std::vector<size_t> Alone(const OwnTimes& times) {
  std::vector<size_t> groups(times.own_ns.size());
  std::iota(groups.begin(), groups.end(), 0);
  return groups;
}

// Each node is a group, named by its first worker.
std::vector<size_t> ByNode(const OwnTimes& times) {
  std::unordered_map<std::string_view, size_t> first;
  std::vector<size_t> groups;
  for (size_t w = 0; w < times.nodes.size(); ++w) {
    groups.push_back(first.emplace(times.nodes[w], w).first->second);
  }
  return groups;
}

// `groups`: that of each worker, named by its first one. Those of one group do not compete.
Delays DelaysOfGroups(const OwnTimes& times, const std::vector<size_t>& groups) {
  Delays delays;
  for (size_t s = 0; s < times.step_ns.size(); ++s) {
    double first = 0;
    double second = 0;
    size_t group = groups.front();
    for (size_t w = 0; w < groups.size(); ++w) {
      const double own = times.own_ns[w][s];
      if (own > first) {
        if (groups[w] != group) second = first;
        first = own;
        group = groups[w];
      } else if (groups[w] != group) {
        second = std::max(second, own);
      }
    }
    delays.delay_ns.push_back(first - second);
    delays.worker.push_back(group);
  }
  return delays;
}

// Returns the probability of at least `least` successes in `trials`.
double BinomialTail(size_t least, size_t trials, double probability) {
  const auto log_factorial = [](size_t n) { return std::lgamma(static_cast<double>(n) + 1); };
  double tail = 0;
  for (size_t k = least; k <= trials; ++k) {
    tail += std::exp(log_factorial(trials) - log_factorial(k) - log_factorial(trials - k) +
                     static_cast<double>(k) * std::log(probability) +
                     static_cast<double>(trials - k) * std::log1p(-probability));
  }
  return tail;
}

// Returns the group that causes more than half of the delay.
std::optional<Latest> LatestOf(const OwnTimes& times, const std::vector<size_t>& groups) {
  const Delays delays = DelaysOfGroups(times, groups);
  std::map<size_t, double> sums;
  for (size_t s = 0; s < delays.delay_ns.size(); ++s) sums[delays.worker[s]] += delays.delay_ns[s];
  const double total = std::accumulate(delays.delay_ns.begin(), delays.delay_ns.end(), 0.0);
  const auto most = std::max_element(
      sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == sums.end() || 2 * most->second <= total) return std::nullopt;
  Latest latest;
  latest.delay_ns = most->second;
  for (size_t w = 0; w < groups.size(); ++w) {
    if (groups[w] == most->first) latest.workers.push_back(w);
  }
  if (latest.workers.size() == groups.size()) return std::nullopt;
  const double is_long_ns = kMinDelay * Mean(delays.delay_ns);
  size_t long_steps = 0;
  for (size_t s = 0; s < delays.delay_ns.size(); ++s) {
    if (delays.delay_ns[s] <= is_long_ns) continue;
    ++long_steps;
    if (delays.worker[s] == most->first) ++latest.late_steps;
  }
  if (latest.late_steps == 0) return std::nullopt;
  const double share =
      static_cast<double>(latest.workers.size()) / static_cast<double>(groups.size());
  latest.significant = BinomialTail(latest.late_steps, long_steps, share) / share < kFalseAlarm;
  return latest;
}

}  // namespace

Delays DelaysOf(const OwnTimes& times) { return DelaysOfGroups(times, Alone(times)); }

std::optional<Latest> FindLatest(const OwnTimes& times) {
  if (times.own_ns.size() < 2) return std::nullopt;
  std::optional<Latest> latest = LatestOf(times, Alone(times));
  if (latest.has_value()) return latest;
  latest = LatestOf(times, ByNode(times));
  // One of two nodes always causes at least half.
  if (!latest.has_value() || !latest->significant || !IsNode(times, latest->workers)) {
    return std::nullopt;
  }
  latest->node = times.nodes[latest->workers.front()];
  return latest;
}

double MeanWaitNs(const OwnTimes& times) {
  double waits_ns = 0;
  for (size_t s = 0; s < times.step_ns.size(); ++s) {
    double largest = 0;
    double sum = 0;
    for (const std::vector<double>& own : times.own_ns) {
      largest = std::max(largest, own[s]);
      sum += own[s];
    }
    waits_ns += largest - sum / static_cast<double>(times.own_ns.size());
  }
  return waits_ns;
}

}  // namespace jobscope::analysis
