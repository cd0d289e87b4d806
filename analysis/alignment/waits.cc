// SPDX-License-Identifier: Apache-2.0
#include "analysis/alignment/waits.h"

#include <algorithm>

namespace jobscope::analysis {
namespace {

// Returns the index of the step whose account contains `time_ns`.
std::optional<size_t> StepAt(const std::vector<StepView>& steps, int64_t time_ns) {
  const auto step =
      std::lower_bound(steps.begin(), steps.end(), time_ns,
                       [](const StepView& a, int64_t time) { return a.end_ns <= time; });
  if (step == steps.end() || step->end_ns - step->account_ns > time_ns) return std::nullopt;
  return static_cast<size_t>(step - steps.begin());
}

struct LastArrival {
  size_t member = 0;
  int64_t time_ns = 0;
  int64_t behind_ns = 0;  // time after the second-to-last arrival
  bool clocks_agree = true;
  int64_t uncertainty_ns = 0;
};

LastArrival FindLast(const Match& match, const std::vector<WorkerView>& views) {
  LastArrival last;
  last.time_ns = INT64_MIN;
  int64_t before_ns = INT64_MIN;
  for (size_t i = 0; i < match.members.size(); ++i) {
    const Match::Member& member = match.members[i];
    const v1::Digest& digest = *views[member.worker].digest;
    last.clocks_agree = last.clocks_agree && digest.aligned() && digest.has_clock_uncertainty_ns();
    last.uncertainty_ns = std::max(last.uncertainty_ns, ClockUncertaintyNs(digest));
    const int64_t begin_ns = views[member.worker].collectives[member.collective].begin_ns;
    if (begin_ns > last.time_ns) {
      before_ns = last.time_ns;
      last.time_ns = begin_ns;
      last.member = i;
    } else {
      before_ns = std::max(before_ns, begin_ns);
    }
  }
  if (before_ns != INT64_MIN) last.behind_ns = last.time_ns - before_ns;
  return last;
}

// Adds the blocked time of one collective to the classes of the steps that contain it.
void AddToSteps(const CollectiveView& collective, int64_t wait_until_ns, int64_t wait_at_most_ns,
                WorkerView* view) {
  int64_t left_ns = wait_at_most_ns;
  for (const Interval& interval : collective.blocked) {
    const std::optional<size_t> step = StepAt(view->steps, interval.begin_ns);
    if (!step.has_value()) continue;
    const int64_t before =
        std::clamp<int64_t>(wait_until_ns - interval.begin_ns, 0, interval.length_ns());
    const int64_t wait_ns = std::min(before, left_ns);
    left_ns -= wait_ns;
    view->class_ns[Index(StepClass::kWaiting)][*step] += wait_ns;
    view->class_ns[Index(StepClass::kTransfer)][*step] += interval.length_ns() - wait_ns;
  }
}

// Returns, per common step, the least time that any worker was blocked in it.
std::vector<int64_t> LeastBlocked(const Alignment& alignment,
                                  const std::vector<const WorkerView*>& views) {
  std::vector<int64_t> least(alignment.common(), INT64_MAX);
  for (size_t i = 0; i < alignment.workers.size(); ++i) {
    const WorkerView& view = *views[alignment.workers[i]];
    for (size_t s = 0; s < least.size(); ++s) {
      least[s] = std::min(least[s], view.blocked_ns[alignment.steps[i][s]]);
    }
  }
  return least;
}

void SplitWholeSteps(const Alignment& alignment, std::vector<WorkerView>* views) {
  std::vector<const WorkerView*> all;
  for (const WorkerView& view : *views) all.push_back(&view);
  const std::vector<int64_t> least = LeastBlocked(alignment, all);
  for (size_t i = 0; i < alignment.workers.size(); ++i) {
    WorkerView& view = (*views)[alignment.workers[i]];
    for (size_t s = 0; s < least.size(); ++s) {
      const size_t step = alignment.steps[i][s];
      view.class_ns[Index(StepClass::kTransfer)][step] = least[s];
      view.class_ns[Index(StepClass::kWaiting)][step] = view.blocked_ns[step] - least[s];
    }
  }
}

}  // namespace

int64_t BlockedBefore(const Intervals& blocked, int64_t last_arrival_ns) {
  int64_t before_ns = 0;
  for (const Interval& interval : blocked) {
    before_ns += std::clamp<int64_t>(last_arrival_ns - interval.begin_ns, 0, interval.length_ns());
  }
  return before_ns;
}

std::vector<MatchTimes> SplitBlocked(const Alignment& alignment, std::vector<WorkerView>* views,
                                     std::vector<int64_t>* unsure_ns) {
  std::vector<std::vector<bool>> matched(views->size());
  for (size_t w = 0; w < views->size(); ++w) {
    WorkerView& view = (*views)[w];
    matched[w].assign(view.collectives.size(), false);
    if (view.blocked_ns.empty()) continue;
    view.class_ns[Index(StepClass::kWaiting)].assign(view.steps.size(), 0);
    view.class_ns[Index(StepClass::kTransfer)].assign(view.steps.size(), 0);
  }
  unsure_ns->assign(views->size(), 0);
  std::vector<MatchTimes> result;
  result.reserve(alignment.matches.size());
  for (const Match& match : alignment.matches) {
    const LastArrival last = FindLast(match, *views);
    MatchTimes times;
    times.transfer_ns = INT64_MAX;
    int64_t most_ns = 0;
    for (const Match::Member& member : match.members) {
      const int64_t blocked_ns = (*views)[member.worker].collectives[member.collective].blocked_ns;
      times.transfer_ns = std::min(times.transfer_ns, blocked_ns);
      most_ns = std::max(most_ns, blocked_ns);
    }
    const bool by_arrival = last.clocks_agree && 2 * last.uncertainty_ns < most_ns;
    // A member that is not known may have arrived later.
    if (match.complete && last.clocks_agree && last.behind_ns > 2 * last.uncertainty_ns) {
      times.last = match.members[last.member].worker;
    }
    for (const Match::Member& member : match.members) {
      WorkerView& view = (*views)[member.worker];
      const CollectiveView& collective = view.collectives[member.collective];
      matched[member.worker][member.collective] = true;
      if (view.blocked_ns.empty()) continue;
      const int64_t wait_ns = by_arrival ? BlockedBefore(collective.blocked, last.time_ns)
                                         : collective.blocked_ns - times.transfer_ns;
      times.wait_ns += wait_ns;
      if (!match.complete) (*unsure_ns)[member.worker] += collective.blocked_ns - wait_ns;
      AddToSteps(collective, by_arrival ? last.time_ns : INT64_MAX / 2, wait_ns, &view);
    }
    result.push_back(times);
  }
  for (size_t w = 0; w < views->size(); ++w) {
    WorkerView& view = (*views)[w];
    for (size_t c = 0; c < view.collectives.size(); ++c) {
      if (matched[w][c] || view.blocked_ns.empty()) continue;
      (*unsure_ns)[w] += view.collectives[c].blocked_ns;
      AddToSteps(view.collectives[c], INT64_MIN / 2, 0, &view);
    }
  }
  if (alignment.whole_steps) {
    SplitWholeSteps(alignment, views);
    unsure_ns->assign(views->size(), 0);
  }
  return result;
}

std::vector<double> TransferPerStep(const Alignment& alignment,
                                    const std::vector<const WorkerView*>& views,
                                    const std::vector<MatchTimes>& matches) {
  std::vector<double> transfer(alignment.common(), 0);
  if (alignment.workers.empty()) return transfer;
  if (alignment.whole_steps) {
    const std::vector<int64_t> least = LeastBlocked(alignment, views);
    return {least.begin(), least.end()};
  }
  constexpr size_t kNone = SIZE_MAX;
  std::vector<std::vector<size_t>> common(views.size());
  std::vector<std::vector<double>> sums(views.size());  // of each worker
  for (size_t i = 0; i < alignment.workers.size(); ++i) {
    const size_t w = alignment.workers[i];
    common[w].assign(views[w]->steps.size(), kNone);
    sums[w].assign(alignment.common(), 0);
    for (size_t s = 0; s < alignment.steps[i].size(); ++s) common[w][alignment.steps[i][s]] = s;
  }
  for (size_t m = 0; m < matches.size(); ++m) {
    for (const Match::Member& member : alignment.matches[m].members) {
      const CollectiveView& collective = views[member.worker]->collectives[member.collective];
      if (!collective.step.has_value() || common[member.worker].empty()) continue;
      const size_t step = common[member.worker][*collective.step];
      if (step == kNone) continue;
      double& sum = sums[member.worker][step];
      sum += static_cast<double>(matches[m].transfer_ns);
      transfer[step] = std::max(transfer[step], sum);
    }
  }
  return transfer;
}

}  // namespace jobscope::analysis
