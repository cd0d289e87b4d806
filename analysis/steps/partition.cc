// SPDX-License-Identifier: Apache-2.0
#include "analysis/steps/partition.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace jobscope::analysis {
namespace {

// Maximum distance of the ends of a collective and of a wait for it: another thread records the
// end, and wakes up the one that waits.
constexpr int64_t kWakeUpNs = 100'000;

// Returns of each of `busy` whether the program waits in it: it ends with a collective that was
// called before. `calls` must be sorted by end.
std::vector<bool> FindWaits(const std::vector<BusyBlock>& busy,
                            const std::vector<Interval>& calls) {
  std::vector<bool> waits;
  waits.reserve(busy.size());
  // The calls that end with the block, without those that a later end and an earlier begin make
  // irrelevant: the first one began first.
  std::deque<Interval> near;
  auto next = calls.begin();
  for (const BusyBlock& block : busy) {
    for (; next != calls.end() && next->end_ns <= block.span.end_ns + kWakeUpNs; ++next) {
      while (!near.empty() && near.back().begin_ns >= next->begin_ns) near.pop_back();
      near.push_back(*next);
    }
    while (!near.empty() && near.front().end_ns < block.span.end_ns - kWakeUpNs) near.pop_front();
    waits.push_back(block.may_wait && !block.merged && !near.empty() &&
                    near.front().begin_ns <= block.span.begin_ns);
  }
  return waits;
}

// Returns the index of the account that contains the begin of `block`.
std::optional<size_t> AccountOf(const BusyBlock& block, const std::vector<Interval>& accounts) {
  const auto next = std::upper_bound(
      accounts.begin(), accounts.end(), block.span.begin_ns,
      [](int64_t time_ns, const Interval& account) { return time_ns < account.begin_ns; });
  if (next == accounts.begin() || std::prev(next)->end_ns <= block.span.begin_ns) return {};
  return static_cast<size_t>(std::prev(next) - accounts.begin());
}

// Returns how long the thread of a step ran or waited for a CPU in its account; of each at most
// `limit_ns`.
int64_t AwakeNs(const StepSpan& step, int64_t limit_ns) {
  return std::clamp<int64_t>(step.cpu_ns.value_or(0), 0, limit_ns) +
         std::clamp<int64_t>(step.not_running_ns.value_or(0), 0, limit_ns);
}

// Returns the busy blocks without waits for collectives. Where the CPU time of an account is known,
// the step's thread waited no longer in it than it slept: of the scopes with waits the front is
// work.
std::vector<BusyBlock> WorkOf(const std::vector<StepSpan>& steps,
                              const std::vector<Interval>& accounts, const RecordedTimes& times) {
  std::vector<Interval> calls;
  for (const CollectiveSpan& collective : times.collectives) {
    if (!collective.on_device) calls.push_back(collective.span);
  }
  std::sort(calls.begin(), calls.end(),
            [](const Interval& a, const Interval& b) { return a.end_ns < b.end_ns; });
  std::vector<BusyBlock> work = times.busy;
  const std::vector<bool> waits = FindWaits(work, calls);
  std::map<size_t, int64_t> waits_ns;  // by account
  for (size_t i = 0; i < work.size(); ++i) {
    if (!waits[i]) continue;
    const std::optional<size_t> account = AccountOf(work[i], accounts);
    if (account.has_value()) waits_ns[*account] += work[i].span.length_ns();
  }
  for (size_t i = 0; i < work.size(); ++i) {
    if (!waits[i]) continue;
    BusyBlock& block = work[i];
    const std::optional<size_t> account = AccountOf(block, accounts);
    double awake = 0;  // share
    if (account.has_value() && steps[*account].cpu_ns.has_value()) {
      const int64_t length_ns = accounts[*account].length_ns();
      const int64_t asleep_ns =
          std::max<int64_t>(0, length_ns - AwakeNs(steps[*account], length_ns));
      awake = std::max(
          0.0, 1 - static_cast<double>(asleep_ns) / static_cast<double>(waits_ns[*account]));
    }
    block.span.end_ns = block.span.begin_ns +
                        static_cast<int64_t>(awake * static_cast<double>(block.span.length_ns()));
  }
  return work;
}

// Returns when in `part` of a collective, called at `call_ns`, the worker was busy instead of
// waiting: leaf events that began after the call. An event that began before it may be the call
// itself.
Intervals BusyDuring(const Interval& part, int64_t call_ns, const std::vector<BusyBlock>& busy) {
  Intervals during;
  auto block = std::lower_bound(
      busy.begin(), busy.end(), part.begin_ns,
      [](const BusyBlock& a, int64_t begin_ns) { return a.span.end_ns <= begin_ns; });
  for (; block != busy.end() && block->span.begin_ns < part.end_ns; ++block) {
    if (!block->merged && block->span.begin_ns < call_ns) continue;
    Extend(&during, std::max(block->span.begin_ns, part.begin_ns),
           std::min(block->span.end_ns, part.end_ns));
  }
  return during;
}

// Returns the blocked time of all collectives; each instant counts for the one that began first.
std::vector<Intervals> BlockedTimes(const std::vector<StepSpan>& steps,
                                    const std::vector<Interval>& accounts,
                                    const RecordedTimes& times, const Intervals& before) {
  const std::vector<BusyBlock> work = WorkOf(steps, accounts, times);
  std::vector<Intervals> blocked;
  blocked.reserve(times.collectives.size());
  int64_t reached_ns = INT64_MIN;  // assigned up to here
  size_t first_account = 0;
  for (const CollectiveSpan& collective : times.collectives) {
    Intervals rest;
    const int64_t begin_ns = std::max(collective.span.begin_ns, reached_ns);
    Extend(&rest, begin_ns, collective.span.end_ns);
    reached_ns = std::max(reached_ns, collective.span.end_ns);
    if (!rest.empty()) {
      if (!collective.on_device) {
        rest = Subtract(rest, BusyDuring(rest[0], collective.span.begin_ns, work));
      }
      // Only the part of `before` that can intersect it: a trace may have thousands of both.
      const auto from =
          std::lower_bound(before.begin(), before.end(), begin_ns,
                           [](const Interval& a, int64_t time_ns) { return a.end_ns <= time_ns; });
      auto to = from;
      while (to != before.end() && to->begin_ns < collective.span.end_ns) ++to;
      rest = Subtract(rest, Intervals(from, to));
      while (first_account < accounts.size() && accounts[first_account].end_ns <= begin_ns) {
        ++first_account;
      }
      auto last = accounts.begin() + static_cast<ptrdiff_t>(first_account);
      while (last != accounts.end() && last->begin_ns < collective.span.end_ns) ++last;
      rest = Intersect(rest,
                       Intervals(accounts.begin() + static_cast<ptrdiff_t>(first_account), last));
    }
    blocked.push_back(std::move(rest));
  }
  return blocked;
}

// Moves time in which the step's thread was not running to its class.
void TakeNotRunning(const std::vector<StepSpan>& steps, Partition* partition) {
  const bool known = std::any_of(steps.begin(), steps.end(), [](const StepSpan& step) {
    return step.not_running_ns.has_value();
  });
  if (!known) return;
  std::vector<int64_t>& not_running = partition->class_ns[Index(StepClass::kNotRunning)];
  not_running.assign(steps.size(), 0);
  constexpr StepClass kFrom[] = {StepClass::kHost, StepClass::kLaunch, StepClass::kUnexplained};
  for (size_t s = 0; s < steps.size(); ++s) {
    int64_t available = 0;
    for (const StepClass from : kFrom) {
      const std::vector<int64_t>& column = partition->class_ns[Index(from)];
      if (!column.empty()) available += column[s];
    }
    const int64_t wanted = std::clamp<int64_t>(steps[s].not_running_ns.value_or(0), 0, available);
    not_running[s] = wanted;
    int64_t left = wanted;
    for (const StepClass from : kFrom) {
      std::vector<int64_t>& column = partition->class_ns[Index(from)];
      if (column.empty() || available == 0) continue;
      const int64_t share =
          from == StepClass::kUnexplained
              ? left
              : std::min(left, static_cast<int64_t>(static_cast<double>(column[s]) *
                                                    static_cast<double>(wanted) /
                                                    static_cast<double>(available)));
      const int64_t taken = std::min(share, column[s]);
      column[s] -= taken;
      left -= taken;
    }
    // Rounding may leave one or two nanoseconds.
    not_running[s] -= left;
  }
}

// A thread is asleep while it neither runs nor waits for a CPU, and no recorded wait covers that.
// `helped_ns`: the time, by step, in which helpers work.
void FindAsleep(const std::vector<StepSpan>& steps, const std::vector<Interval>& accounts,
                const std::vector<int64_t>& helped_ns, Partition* partition) {
  constexpr StepClass kMayHide[] = {StepClass::kHost, StepClass::kLaunch, StepClass::kUnexplained};
  for (size_t s = 0; s < steps.size(); ++s) {
    if (!steps[s].cpu_ns.has_value() || !steps[s].not_running_ns.has_value()) continue;
    int64_t hiding_ns = 0;
    for (const StepClass hiding : kMayHide) {
      const std::vector<int64_t>& column = partition->class_ns[Index(hiding)];
      if (!column.empty()) hiding_ns += column[s];
    }
    hiding_ns = std::max<int64_t>(0, hiding_ns - helped_ns[s]);
    int64_t recorded_ns = accounts[s].length_ns() - hiding_ns;  // with all of not running
    const std::vector<int64_t>& not_running = partition->class_ns[Index(StepClass::kNotRunning)];
    if (!not_running.empty()) recorded_ns -= not_running[s];
    // Of the classes that are recorded, garbage collection alone never sleeps.
    const std::vector<int64_t>& gc = partition->class_ns[Index(StepClass::kGarbageCollection)];
    const int64_t gc_ns = gc.empty() ? 0 : gc[s];
    const int64_t length_ns = accounts[s].length_ns();
    partition->asleep_ns.push_back(std::clamp<int64_t>(
        length_ns - (recorded_ns - gc_ns) - AwakeNs(steps[s], length_ns), 0, hiding_ns));
  }
}

}  // namespace

std::vector<Interval> AccountsOf(const std::vector<StepSpan>& steps) {
  // The usual difference of step numbers: a program may count by 10.
  std::vector<int64_t> strides;
  for (size_t i = 1; i < steps.size(); ++i) {
    int64_t stride = 0;
    if (!__builtin_sub_overflow(steps[i].number, steps[i - 1].number, &stride)) {
      strides.push_back(stride);
    }
  }
  std::sort(strides.begin(), strides.end());
  const int64_t usual = strides.empty() ? 1 : strides[strides.size() / 2];
  std::vector<Interval> accounts;
  accounts.reserve(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    int64_t begin_ns = steps[i].begin_ns;
    if (i > 0) {
      const int64_t before_ns = accounts[i - 1].end_ns;
      int64_t stride = 0;
      const bool missing =
          __builtin_sub_overflow(steps[i].number, steps[i - 1].number, &stride) || stride > usual;
      begin_ns = missing ? std::max(begin_ns, before_ns) : before_ns;
    }
    accounts.push_back({begin_ns, std::max(begin_ns, steps[i].end_ns)});
  }
  return accounts;
}

Partition PartitionSteps(const std::vector<StepSpan>& steps, const std::vector<Interval>& accounts,
                         const RecordedTimes& times) {
  Partition partition;
  Intervals covered;  // by the classes so far
  const auto add = [&](StepClass step_class, const Intervals& intervals) {
    if (intervals.empty()) return;
    partition.class_ns[Index(step_class)] = CoverageOf(accounts, Subtract(intervals, covered));
    covered = Union(covered, intervals);
  };
  add(StepClass::kDeviceCompute, times.device_compute);
  add(StepClass::kInput, times.input);
  partition.blocked = BlockedTimes(steps, accounts, times, covered);
  if (!times.collectives.empty()) {
    Intervals all;
    for (const Intervals& blocked : partition.blocked) {
      all.insert(all.end(), blocked.begin(), blocked.end());
    }
    all = Union(std::move(all));
    partition.blocked_ns = CoverageOf(accounts, all);
    covered = Union(covered, all);
  }
  add(StepClass::kDeviceCopy, times.device_copy);
  add(StepClass::kCompilation, times.compilation);
  add(StepClass::kGarbageCollection, times.garbage_collection);
  add(StepClass::kGil, times.gil);
  // Also where a scope of the step thread is around it: that one only waits then.
  const std::vector<int64_t> helped_ns =
      CoverageOf(accounts, Subtract(Union(times.helper_launch, times.helper_host), covered));
  add(StepClass::kLaunch, Union(times.launch, times.helper_launch));
  add(StepClass::kHost, Union(times.host, times.helper_host));
  const std::vector<int64_t> explained = CoverageOf(accounts, covered);
  std::vector<int64_t>& unexplained = partition.class_ns[Index(StepClass::kUnexplained)];
  unexplained.resize(accounts.size());
  for (size_t s = 0; s < accounts.size(); ++s) {
    unexplained[s] = accounts[s].length_ns() - explained[s];
  }
  TakeNotRunning(steps, &partition);
  FindAsleep(steps, accounts, helped_ns, &partition);
  return partition;
}

}  // namespace jobscope::analysis
