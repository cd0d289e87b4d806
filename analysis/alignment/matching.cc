// SPDX-License-Identifier: Apache-2.0
#include "analysis/alignment/matching.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "analysis/statistics/thresholds.h"

namespace jobscope::analysis {
namespace {

bool HasSequence(const CollectiveView& collective) {
  return collective.sequence.has_value() && collective.group.has_value();
}

// Identifies those that are expected to call a collective: its group, or if that is unknown, all
// that call one of that name.
using Callers = std::pair<bool, std::string>;
Callers CallersOf(const WorkerView& view, const CollectiveView& collective) {
  return {collective.group.has_value(), view.texts[collective.group.value_or(collective.name)]};
}

std::map<Callers, size_t> CountCallers(const std::vector<WorkerView>& views) {
  std::map<Callers, size_t> counts;
  for (const WorkerView& view : views) {
    std::set<std::pair<bool, uint32_t>> seen;
    for (const CollectiveView& collective : view.collectives) {
      if (!seen.emplace(collective.group.has_value(), collective.group.value_or(collective.name))
               .second) {
        continue;
      }
      ++counts[CallersOf(view, collective)];
    }
  }
  return counts;
}

// Divides members of one key into those that can have met, on the common clock: other jobs, or a
// group that was made anew, count from the same numbers. A member may leave before others arrive,
// such as the root of a broadcast, but not by more than its step.
std::vector<std::vector<Match::Member>> Meetings(const std::vector<WorkerView>& views,
                                                 std::vector<Match::Member> members) {
  int64_t uncertainty_ns = 0;
  for (const Match::Member& member : members) {
    const v1::Digest& digest = *views[member.worker].digest;
    if (!digest.aligned() || !digest.has_clock_uncertainty_ns()) return {std::move(members)};
    uncertainty_ns = std::max(uncertainty_ns, ClockUncertaintyNs(digest));
  }
  const auto collective_of = [&](const Match::Member& member) -> const CollectiveView& {
    return views[member.worker].collectives[member.collective];
  };
  std::stable_sort(members.begin(), members.end(), [&](const auto& a, const auto& b) {
    return collective_of(a).begin_ns < collective_of(b).begin_ns;
  });
  std::vector<std::vector<Match::Member>> meetings;
  int64_t until_ns = 0;
  for (const Match::Member& member : members) {
    const CollectiveView& collective = collective_of(member);
    if (meetings.empty() || collective.begin_ns > until_ns) meetings.emplace_back();
    meetings.back().push_back(member);
    const int64_t step_ns =
        collective.step.has_value() ? views[member.worker].steps[*collective.step].account_ns : 0;
    until_ns = std::max(until_ns, collective.end_ns + step_ns + 2 * uncertainty_ns);
  }
  for (std::vector<Match::Member>& meeting : meetings) {
    std::stable_sort(meeting.begin(), meeting.end(),
                     [](const auto& a, const auto& b) { return a.worker < b.worker; });
  }
  return meetings;
}

// Returns whether members cannot be of one collective: two are of one worker, or, where the size of
// the group is not known, of one rank, as in a run of two jobs.
bool AreAmbiguous(const std::vector<WorkerView>& views, const std::vector<Match::Member>& members) {
  std::set<size_t> workers;
  std::set<int64_t> ranks;
  for (const Match::Member& member : members) {
    const WorkerView& view = views[member.worker];
    if (!workers.insert(member.worker).second) return true;
    if (view.collectives[member.collective].group_size != 0 || !view.digest->has_rank()) continue;
    if (!ranks.insert(view.digest->rank()).second) return true;
  }
  return false;
}

// Adds `candidates`, by key, as matches; at most one per worker counts. `callers`: CountCallers.
template <typename Candidates>
void TakeMatches(const std::vector<WorkerView>& views, const std::map<Callers, size_t>& callers,
                 const Candidates& candidates, std::vector<Match>* matches) {
  for (const auto& [key, candidate] : candidates) {
    for (std::vector<Match::Member>& members : Meetings(views, candidate)) {
      const Match::Member& first = members.front();
      const CollectiveView& collective = views[first.worker].collectives[first.collective];
      const size_t size = collective.group_size;
      if (AreAmbiguous(views, members) || members.size() < 2 ||
          (size != 0 && members.size() > size))
        continue;
      const size_t wanted =
          size != 0 ? size : callers.at(CallersOf(views[first.worker], collective));
      Match match;
      match.complete = members.size() >= wanted;
      match.members = std::move(members);
      matches->push_back(std::move(match));
    }
  }
}

using Ends = std::vector<std::pair<int64_t, size_t>>;
// Returns the collective in `ends` (sorted) that ends nearest to `end_ns`.
size_t NearestEnd(const Ends& ends, int64_t end_ns) {
  auto after = std::lower_bound(ends.begin(), ends.end(), std::make_pair(end_ns, size_t{0}));
  if (after == ends.end()) return std::prev(after)->second;
  if (after == ends.begin()) return after->second;
  const auto before = std::prev(after);
  return end_ns - before->first <= after->first - end_ns ? before->second : after->second;
}

std::map<std::string, Ends> EndsByName(const WorkerView& view) {
  std::map<std::string, Ends> ends;
  for (size_t c = 0; c < view.collectives.size(); ++c) {
    const CollectiveView& collective = view.collectives[c];
    ends[view.texts[collective.name]].emplace_back(collective.end_ns, c);
  }
  for (auto& [name, of_name] : ends) std::sort(of_name.begin(), of_name.end());
  return ends;
}

}  // namespace

std::vector<Match> MatchBySequence(const std::vector<WorkerView>& views) {
  std::map<std::tuple<std::string, int64_t>, std::vector<Match::Member>> candidates;
  for (size_t w = 0; w < views.size(); ++w) {
    const std::vector<CollectiveView>& collectives = views[w].collectives;
    for (size_t c = 0; c < collectives.size(); ++c) {
      if (!HasSequence(collectives[c])) continue;
      candidates[{views[w].texts[*collectives[c].group], *collectives[c].sequence}].push_back(
          {w, c});
    }
  }
  std::vector<Match> matches;
  TakeMatches(views, CountCallers(views), candidates, &matches);
  return matches;
}

bool MatchByOrdinal(const std::vector<WorkerView>& views, const std::vector<size_t>& workers,
                    const std::vector<std::vector<size_t>>& steps, std::vector<Match>* matches) {
  constexpr size_t kNoStep = SIZE_MAX;
  const bool sequences = !matches->empty();
  using Key = std::pair<size_t, size_t>;  // common step, ordinal
  std::map<std::string, std::map<Key, std::vector<Match::Member>>> candidates;
  for (size_t i = 0; i < workers.size(); ++i) {
    const size_t w = workers[i];
    std::vector<size_t> common(views[w].steps.size(), kNoStep);
    for (size_t s = 0; s < steps[i].size(); ++s) common[steps[i][s]] = s;
    std::map<std::pair<size_t, uint32_t>, size_t> ordinals;
    const std::vector<CollectiveView>& collectives = views[w].collectives;
    for (size_t c = 0; c < collectives.size(); ++c) {
      if (!collectives[c].step.has_value()) continue;
      if (sequences && HasSequence(collectives[c])) continue;
      const size_t step = common[*collectives[c].step];
      if (step == kNoStep) continue;
      const size_t ordinal = ordinals[{step, collectives[c].name}]++;
      candidates[views[w].texts[collectives[c].name]][{step, ordinal}].push_back({w, c});
    }
  }
  const std::map<Callers, size_t> callers = CountCallers(views);
  bool all_fit = true;
  for (const auto& [name, of_name] : candidates) {
    const auto fitting = std::count_if(of_name.begin(), of_name.end(), [&](const auto& candidate) {
      return candidate.second.size() == workers.size();
    });
    if (static_cast<double>(fitting) >= kConsistent * static_cast<double>(of_name.size())) {
      TakeMatches(views, callers, of_name, matches);
    } else {
      all_fit = false;
    }
  }
  return all_fit;
}

std::vector<Match> MatchByTime(const std::vector<WorkerView>& views,
                               const std::vector<size_t>& workers) {
  const size_t first = workers.front();
  const std::map<std::string, Ends> ends = EndsByName(views[first]);
  std::vector<Match> matches;
  for (const size_t w : workers) {
    if (w == first) continue;
    const std::map<std::string, Ends> others = EndsByName(views[w]);
    for (const auto& [name, of_name] : ends) {
      const auto of_other = others.find(name);
      if (of_other == others.end()) continue;
      for (const auto& [end_ns, c] : of_name) {
        const size_t nearest = NearestEnd(of_other->second, end_ns);
        const CollectiveView& mine = views[first].collectives[c];
        const CollectiveView& other = views[w].collectives[nearest];
        const bool overlap = mine.begin_ns < other.end_ns && other.begin_ns < mine.end_ns;
        if (!overlap || NearestEnd(of_name, other.end_ns) != c) continue;
        Match match;
        match.members = {{first, c}, {w, nearest}};
        matches.push_back(std::move(match));
      }
    }
  }
  return matches;
}

}  // namespace jobscope::analysis
