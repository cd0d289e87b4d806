// SPDX-License-Identifier: Apache-2.0
#include "analysis/alignment/alignment.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analysis/statistics/thresholds.h"

namespace jobscope::analysis {
namespace {

// Aligns the steps whose numbers occur once in each worker.
void AlignByNumber(const std::vector<WorkerView>& views, Alignment* alignment) {
  std::map<int64_t, size_t> seen;  // by how many workers
  // Numbers come from any program: a table whose hash is the number itself could be made slow.
  std::vector<absl::flat_hash_map<int64_t, size_t>> places(alignment->workers.size());
  for (size_t i = 0; i < alignment->workers.size(); ++i) {
    std::set<int64_t> twice;
    const std::vector<StepView>& steps = views[alignment->workers[i]].steps;
    for (size_t s = 0; s < steps.size(); ++s) {
      if (!places[i].emplace(steps[s].number, s).second) twice.insert(steps[s].number);
    }
    for (const int64_t number : twice) places[i].erase(number);
    for (const auto& [number, place] : places[i]) ++seen[number];
  }
  alignment->by = Alignment::By::kNone;
  alignment->numbers.clear();
  alignment->steps.assign(alignment->workers.size(), {});
  for (const auto& [number, workers] : seen) {
    if (workers != alignment->workers.size()) continue;
    alignment->numbers.push_back(number);
    for (size_t i = 0; i < places.size(); ++i) alignment->steps[i].push_back(places[i].at(number));
  }
  if (!alignment->numbers.empty()) alignment->by = Alignment::By::kNumber;
}

// Returns whether members of a match were called in steps of the same number, among `workers`.
bool NumbersFit(const std::vector<WorkerView>& views, const std::vector<size_t>& workers,
                const std::vector<Match>& matches) {
  size_t same = 0;
  size_t all = 0;
  for (const Match& match : matches) {
    const Match::Member& first = match.members.front();
    if (!std::binary_search(workers.begin(), workers.end(), first.worker)) continue;
    const auto& first_step = views[first.worker].collectives[first.collective].step;
    for (size_t i = 1; i < match.members.size(); ++i) {
      const Match::Member& other = match.members[i];
      const auto& step = views[other.worker].collectives[other.collective].step;
      if (!first_step.has_value() || !step.has_value()) continue;
      ++all;
      if (views[first.worker].steps[*first_step].number ==
          views[other.worker].steps[*step].number) {
        ++same;
      }
    }
  }
  return all == 0 || static_cast<double>(same) >= kConsistent * static_cast<double>(all);
}

using Votes = std::map<std::pair<size_t, size_t>, size_t>;  // {step of the first, own step}

// Returns the own step with most votes, for each step of the first worker.
std::map<size_t, size_t> Elect(const Votes& votes) {
  std::map<size_t, size_t> chosen;
  std::map<size_t, size_t> best;
  for (const auto& [pair, number] : votes) {
    if (number > best[pair.first]) {
      best[pair.first] = number;
      chosen[pair.first] = pair.second;
    }
  }
  // Each own step can be assigned to only one step.
  std::map<size_t, size_t> used;
  for (const auto& [mine, other] : chosen) ++used[other];
  for (auto it = chosen.begin(); it != chosen.end();) {
    it = used[it->second] > 1 ? chosen.erase(it) : std::next(it);
  }
  return chosen;
}

// Assigns each step of a worker to the step of the first worker with which it shares most
// collectives, directly or through workers whose steps are assigned already. Each match counts
// once.
void AlignByCollectives(const std::vector<WorkerView>& views, const std::vector<Match>& matches,
                        Alignment* alignment) {
  const size_t first = alignment->workers.front();
  const size_t count = alignment->workers.size();
  std::vector<size_t> place(views.size(), SIZE_MAX);
  for (size_t i = 0; i < count; ++i) place[alignment->workers[i]] = i;
  const auto step_of = [&](const Match::Member& member) {
    return views[member.worker].collectives[member.collective].step;
  };
  std::vector<std::vector<std::pair<size_t, size_t>>> calls(count);  // {match, own step}
  for (size_t m = 0; m < matches.size(); ++m) {
    for (const Match::Member& member : matches[m].members) {
      const size_t i = place[member.worker];
      if (i != SIZE_MAX && step_of(member).has_value()) calls[i].emplace_back(m, *step_of(member));
    }
  }
  std::vector<std::map<size_t, size_t>> chosen(count);  // step of the first -> own step
  // Own step -> step of the first; empty: not assigned yet.
  std::vector<std::unordered_map<size_t, size_t>> assigned(count);
  for (size_t s = 0; s < views[first].steps.size(); ++s) chosen[0][s] = assigned[0][s] = s;
  std::vector<bool> counted(matches.size(), false);
  std::vector<Votes> votes(count);
  std::vector<size_t> last_assigned = {0};
  while (!last_assigned.empty()) {
    std::set<size_t> voted_on;
    for (const size_t i : last_assigned) {
      for (const auto& [m, own_step] : calls[i]) {
        const auto step = assigned[i].find(own_step);
        if (counted[m] || step == assigned[i].end()) continue;
        counted[m] = true;
        for (const Match::Member& member : matches[m].members) {
          const size_t other = place[member.worker];
          if (other == SIZE_MAX || !assigned[other].empty()) continue;
          if (!step_of(member).has_value()) continue;
          ++votes[other][{step->second, *step_of(member)}];
          voted_on.insert(other);
        }
      }
    }
    last_assigned.clear();
    for (const size_t i : voted_on) {
      chosen[i] = Elect(votes[i]);
      for (const auto& [mine, own] : chosen[i]) assigned[i][own] = mine;
      if (!chosen[i].empty()) last_assigned.push_back(i);
    }
  }
  alignment->numbers.clear();
  alignment->steps.assign(count, {});
  for (size_t s = 0; s < views[first].steps.size(); ++s) {
    if (!std::all_of(chosen.begin(), chosen.end(),
                     [&](const auto& steps) { return steps.count(s) != 0; })) {
      continue;
    }
    alignment->numbers.push_back(views[first].steps[s].number);
    for (size_t i = 0; i < count; ++i) alignment->steps[i].push_back(chosen[i].at(s));
  }
  alignment->by = alignment->numbers.empty() ? Alignment::By::kNone : Alignment::By::kCollectives;
}

double MeanAccount(const WorkerView& view) {
  double sum = 0;
  for (const StepView& step : view.steps) sum += static_cast<double>(step.account_ns);
  return sum / static_cast<double>(view.steps.size());
}

// Returns whether the clocks show in which steps of different workers collectives are one: two of
// them differ by at most twice the uncertainty, which has to be less than half of a step.
bool ClocksAgree(const std::vector<WorkerView>& views, const Alignment& alignment) {
  int64_t uncertainty_ns = 0;
  double step_ns = std::numeric_limits<double>::infinity();
  for (const size_t w : alignment.workers) {
    const v1::Digest& digest = *views[w].digest;
    if (!digest.aligned() || !digest.has_clock_uncertainty_ns()) return false;
    uncertainty_ns = std::max(uncertainty_ns, ClockUncertaintyNs(digest));
    step_ns = std::min(step_ns, MeanAccount(views[w]));
  }
  return 4 * static_cast<double>(uncertainty_ns) < step_ns;
}

// Matches what could not be matched by sequence.
void MatchTheRest(const std::vector<WorkerView>& views, Alignment* alignment) {
  const bool others = !alignment->matches.empty();
  if (MatchByOrdinal(views, alignment->workers, alignment->steps, &alignment->matches)) return;
  alignment->warnings.push_back(
      others ? "some collectives carry no sequence numbers, and differ between workers: who waits "
               "for whom in these is not known"
             : "collectives carry no sequence numbers, and differ between workers: not matched, so "
               "who waits for whom is not known");
}

// Matches collectives without sequence numbers by ordinal within steps that belong together: steps
// of the same number, unless the times of their collectives contradict this. Inferred steps are
// counted from the begin of each worker's capture.
void MatchWithoutSequence(const std::vector<WorkerView>& views, Alignment* alignment) {
  if (ClocksAgree(views, *alignment)) {
    const std::vector<Match> pairs = MatchByTime(views, alignment->workers);
    if (!pairs.empty() && (alignment->by != Alignment::By::kNumber ||
                           !NumbersFit(views, alignment->workers, pairs))) {
      alignment->warnings.push_back(
          "workers number their steps differently: aligned by the times of their collectives");
      AlignByCollectives(views, pairs, alignment);
    }
  }
  if (alignment->by == Alignment::By::kNone) {
    alignment->warnings.push_back(
        "collectives carry no sequence numbers, and no step has one number in all workers: not "
        "matched, so who waits for whom is not known");
    return;
  }
  MatchTheRest(views, alignment);
}

// Returns whether all workers have collectives, ranks of their own, and steps of equal duration:
// then they wait for each other in the collectives. Two equal jobs in one run do not.
bool RunInStep(const std::vector<WorkerView>& views, const Alignment& alignment) {
  if (alignment.by == Alignment::By::kNone || alignment.workers.size() < 2) return false;
  double least = 0;
  double most = 0;
  std::set<int64_t> ranks;
  for (size_t i = 0; i < alignment.workers.size(); ++i) {
    const WorkerView& view = views[alignment.workers[i]];
    if (!view.has_collectives() || view.blocked_ns.empty()) return false;
    if (view.digest->has_rank() && !ranks.insert(view.digest->rank()).second) return false;
    double sum = 0;
    for (const size_t step : alignment.steps[i]) {
      sum += static_cast<double>(view.steps[step].account_ns);
    }
    least = i == 0 ? sum : std::min(least, sum);
    most = std::max(most, sum);
  }
  return most <= least * (1 + kEqual);
}

// Excludes workers with too few steps, so that the others can still be compared.
void LeaveOutShortOnes(const std::vector<WorkerView>& views, Alignment* alignment) {
  std::vector<size_t> enough;
  for (const size_t w : alignment->workers) {
    if (views[w].steps.size() >= kMinSteps) enough.push_back(w);
  }
  if (enough.empty() || enough.size() == alignment->workers.size()) return;
  const size_t count = alignment->workers.size() - enough.size();
  alignment->warnings.push_back(absl::StrCat(count, count == 1 ? " worker" : " workers",
                                             " recorded fewer than ", kMinSteps,
                                             " steps: left out of the comparison"));
  alignment->workers = std::move(enough);
}

// Keeps the largest set of workers that matches connect, directly or through others, and those in
// step with it, whose collectives could not be matched: those of another rank, because equal jobs
// take the same time for a step. If nothing is matched, keeps workers with collectives. The rest
// goes apart. Returns whether matches connect any of the workers.
bool KeepConnected(const std::vector<WorkerView>& views, Alignment* alignment) {
  std::vector<size_t> set_of(views.size());  // each worker points to one of its set
  std::iota(set_of.begin(), set_of.end(), 0);
  const auto root_of = [&](size_t w) {
    while (set_of[w] != w) w = set_of[w] = set_of[set_of[w]];
    return w;
  };
  std::optional<size_t> first;
  for (size_t w = 0; w < views.size() && alignment->matches.empty(); ++w) {
    if (!views[w].has_collectives()) continue;
    if (!first.has_value()) first = w;
    set_of[w] = *first;
  }
  for (const Match& match : alignment->matches) {
    for (const Match::Member& member : match.members) {
      set_of[root_of(member.worker)] = root_of(match.members.front().worker);
    }
  }
  std::map<size_t, size_t> sizes;
  size_t largest = root_of(alignment->workers.front());
  for (const size_t w : alignment->workers) {
    if (++sizes[root_of(w)] > sizes[largest]) largest = root_of(w);
  }
  if (sizes[largest] < 2) return false;
  double least = 0;
  double most = 0;
  std::set<int64_t> ranks;
  for (const size_t w : alignment->workers) {
    if (root_of(w) != largest) continue;
    if (views[w].digest->has_rank()) ranks.insert(views[w].digest->rank());
    const double account = MeanAccount(views[w]);
    least = least == 0 ? account : std::min(least, account);
    most = std::max(most, account);
  }
  Alignment kept;
  for (size_t i = 0; i < alignment->workers.size(); ++i) {
    const size_t w = alignment->workers[i];
    const double account = MeanAccount(views[w]);
    const bool in_step = views[w].has_collectives() && account <= least * (1 + kEqual) &&
                         most <= account * (1 + kEqual);
    const auto is_new_rank = [&] {
      return !views[w].digest->has_rank() || ranks.insert(views[w].digest->rank()).second;
    };
    if (root_of(w) != largest && !(in_step && is_new_rank())) {
      alignment->apart.push_back(w);
      continue;
    }
    kept.workers.push_back(w);
    if (!alignment->steps.empty()) kept.steps.push_back(std::move(alignment->steps[i]));
  }
  alignment->workers = std::move(kept.workers);
  alignment->steps = std::move(kept.steps);
  return !alignment->matches.empty();
}

}  // namespace

Alignment Align(const std::vector<WorkerView>& views) {
  Alignment alignment;
  bool collectives = false;
  for (size_t w = 0; w < views.size(); ++w) {
    if (!views[w].steps.empty()) alignment.workers.push_back(w);
    collectives = collectives || views[w].has_collectives();
  }
  if (alignment.workers.empty()) return alignment;
  LeaveOutShortOnes(views, &alignment);
  alignment.matches = MatchBySequence(views);
  bool connected = KeepConnected(views, &alignment);
  AlignByNumber(views, &alignment);
  if (!alignment.matches.empty()) {
    const bool fit = NumbersFit(views, alignment.workers, alignment.matches);
    if (alignment.workers.size() > 1 && (!fit || alignment.common() < kMinSteps)) {
      Alignment other = alignment;
      AlignByCollectives(views, other.matches, &other);
      if (!fit || other.common() > alignment.common()) {
        alignment = std::move(other);
        alignment.warnings.push_back(
            "step numbers differ between workers, or recur: aligned by their collectives");
      }
    }
    MatchTheRest(views, &alignment);
  } else if (collectives && alignment.workers.size() > 1) {
    MatchWithoutSequence(views, &alignment);
    if (!alignment.matches.empty()) connected = KeepConnected(views, &alignment);
  }
  alignment.whole_steps = alignment.matches.empty() && RunInStep(views, alignment);
  // Matches may connect workers only with those left out: these are no ranks of each other.
  alignment.synchronous = alignment.whole_steps || connected;
  if (alignment.apart.empty()) return alignment;
  if (!alignment.synchronous) {
    alignment.workers.insert(alignment.workers.end(), alignment.apart.begin(),
                             alignment.apart.end());
    std::sort(alignment.workers.begin(), alignment.workers.end());
    alignment.apart.clear();
    AlignByNumber(views, &alignment);
    return alignment;
  }
  const size_t more = alignment.apart.size() - 1;
  alignment.warnings.push_back(
      absl::StrCat(views[alignment.apart.front()].name,
                   more > 0 ? absl::StrCat(" and ", more, " more share") : " shares",
                   " no collective with the others: not compared with them"));
  return alignment;
}

}  // namespace jobscope::analysis
