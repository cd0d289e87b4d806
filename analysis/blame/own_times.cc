// SPDX-License-Identifier: Apache-2.0
#include "analysis/blame/own_times.h"

#include <algorithm>

#include "analysis/statistics/statistics.h"

namespace jobscope::analysis {

std::vector<double> MeanOwn(const OwnTimes& times) {
  std::vector<double> means;
  means.reserve(times.own_ns.size());
  for (const std::vector<double>& own : times.own_ns) means.push_back(Mean(own));
  return means;
}

bool IsNode(const OwnTimes& times, const std::vector<size_t>& workers) {
  const std::string& node = times.nodes[workers.front()];
  return !node.empty() && workers.size() > 1 && workers.size() < times.nodes.size() &&
         static_cast<size_t>(std::count(times.nodes.begin(), times.nodes.end(), node)) ==
             workers.size() &&
         std::all_of(workers.begin(), workers.end(),
                     [&](size_t worker) { return times.nodes[worker] == node; });
}

}  // namespace jobscope::analysis
