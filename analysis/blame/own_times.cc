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

namespace {

// Returns whether `workers` are exactly those with one value in `of_worker`, and there are others.
// One whose value is not known may have that one, too.
bool AreAllOfOne(const std::vector<std::string>& of_worker, const std::vector<size_t>& workers) {
  if (workers.size() < 2 || workers.size() >= of_worker.size()) return false;
  const std::string& value = of_worker[workers.front()];
  return std::find(of_worker.begin(), of_worker.end(), std::string()) == of_worker.end() &&
         static_cast<size_t>(std::count(of_worker.begin(), of_worker.end(), value)) ==
             workers.size() &&
         std::all_of(workers.begin(), workers.end(),
                     [&](size_t worker) { return of_worker[worker] == value; });
}

}  // namespace

bool IsNode(const OwnTimes& times, const std::vector<size_t>& workers) {
  return AreAllOfOne(times.nodes, workers);
}

bool IsGpuModel(const OwnTimes& times, const std::vector<size_t>& workers) {
  return AreAllOfOne(times.gpu_models, workers);
}

}  // namespace jobscope::analysis
