// SPDX-License-Identifier: Apache-2.0
#include "client/cli/sample.h"

#include <algorithm>
#include <map>
#include <string>

namespace jobscope {

std::vector<size_t> SpreadSample(const std::vector<Endpoint>& endpoints, size_t count) {
  // In the order in which the list names them. Sockets of this machine count as one host.
  std::vector<std::vector<size_t>> hosts;
  std::map<std::string, size_t> host_of;
  for (size_t i = 0; i < endpoints.size(); ++i) {
    const auto [entry, is_new] = host_of.emplace(endpoints[i].host, hosts.size());
    if (is_new) hosts.emplace_back();
    hosts[entry->second].push_back(i);
  }
  count = std::min(count, endpoints.size());
  std::vector<size_t> sample;
  sample.reserve(count);
  for (size_t round = 0; sample.size() < count; ++round) {
    std::vector<size_t> candidates;
    for (const std::vector<size_t>& workers : hosts) {
      if (round < workers.size()) candidates.push_back(workers[round]);
    }
    const size_t wanted = std::min(count - sample.size(), candidates.size());
    for (size_t i = 0; i < wanted; ++i) {
      sample.push_back(candidates[i * candidates.size() / wanted]);
    }
  }
  std::sort(sample.begin(), sample.end());
  return sample;
}

}  // namespace jobscope
