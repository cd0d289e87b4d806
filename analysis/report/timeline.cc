// SPDX-License-Identifier: Apache-2.0
#include "analysis/report/timeline.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "analysis/report/report.h"
#include "analysis/statistics/statistics.h"
#include "analysis/steps/timeline_block.h"

namespace jobscope::analysis {
namespace {

constexpr uint32_t kMaxRows = 6;    // of one line
constexpr size_t kMaxLines = 24;    // of one worker
constexpr size_t kMaxBlocks = 400;  // of one worker: digests from anywhere

// A step of all compared workers, or, where none are common, one of a single worker.
struct Candidate {
  int64_t number = 0;
  double ms = 0;
  std::vector<std::pair<size_t, size_t>> members;  // worker, index of its step
  size_t kept = 0;                                 // members whose digest has blocks of it
};

using KeptSteps = std::map<size_t, const v1::DigestTimeline::Step*>;

KeptSteps KeptStepsOf(const WorkerView& view) {
  KeptSteps kept;
  for (const v1::DigestTimeline::Step& step : view.digest->timeline().steps()) {
    if (step.step() < view.steps.size()) kept.emplace(step.step(), &step);
  }
  return kept;
}

class Chooser {
 public:
  explicit Chooser(const Report& report) : report_(report) {
    for (const WorkerRow& row : report.workers) kept_.push_back(KeptStepsOf(row.view));
    ListCandidates();
  }

  std::vector<ShownStep> Choose() {
    const std::optional<size_t> slowest = Slowest();
    const bool is_slowest = slowest.has_value() && candidates_[*slowest].ms >= most_ms_;
    std::vector<std::pair<std::string, std::optional<size_t>>> roles = {
        {is_slowest ? "the slowest step" : "the slowest step with a timeline", slowest},
        {"a median step", Median()}};
    if (report_.verdict.kind == Finding::Kind::kStraggler && !report_.verdict.workers.empty()) {
      roles.emplace_back("where the verdict costs most", OfTheVerdict());
    }
    std::vector<ShownStep> shown;
    std::map<size_t, size_t> known;  // candidate -> index into shown
    for (const auto& [role, candidate] : roles) {
      if (!candidate.has_value()) continue;
      const auto [entry, added] = known.emplace(*candidate, shown.size());
      if (added) shown.push_back(Show(candidates_[*candidate]));
      shown[entry->second].roles.push_back(role);
    }
    return shown;
  }

 private:
  const WorkerView& ViewOf(size_t worker) const { return report_.workers[worker].view; }

  void ListCandidates() {
    const Alignment& alignment = report_.alignment;
    for (size_t c = 0; c < alignment.common(); ++c) {
      Candidate candidate;
      candidate.number = alignment.numbers[c];
      for (size_t i = 0; i < alignment.workers.size(); ++i) {
        candidate.members.emplace_back(alignment.workers[i], alignment.steps[i][c]);
      }
      Add(std::move(candidate));
    }
    if (!candidates_.empty()) return;
    // Workers without a step in common: the one that the verdict names, or the first one.
    size_t worker = report_.verdict.workers.empty() ? 0 : report_.verdict.workers.front();
    while (worker < report_.workers.size() && ViewOf(worker).steps.empty()) ++worker;
    if (worker == report_.workers.size()) return;
    for (size_t s = 0; s < ViewOf(worker).steps.size(); ++s) {
      Candidate candidate;
      candidate.number = ViewOf(worker).steps[s].number;
      candidate.members.emplace_back(worker, s);
      Add(std::move(candidate));
    }
  }

  void Add(Candidate candidate) {
    for (const auto& [worker, step] : candidate.members) {
      const double ms = static_cast<double>(ViewOf(worker).steps[step].account_ns) / kNsPerMs;
      candidate.ms = std::max(candidate.ms, ms);
      candidate.kept += kept_[worker].count(step);
    }
    most_kept_ = std::max(most_kept_, candidate.kept);
    most_ms_ = std::max(most_ms_, candidate.ms);
    candidates_.push_back(std::move(candidate));
  }

  // The candidate with the largest `value`, of those that at least `kept` workers have.
  template <typename Value>
  std::optional<size_t> Largest(size_t kept, Value&& value) const {
    std::optional<size_t> best;
    for (size_t c = 0; c < candidates_.size(); ++c) {
      if (candidates_[c].kept < std::max<size_t>(1, kept)) continue;
      if (!best.has_value() || value(candidates_[c]) > value(candidates_[*best])) best = c;
    }
    return best;
  }

  std::optional<size_t> Slowest() const {
    return Largest((most_kept_ + 1) / 2, [](const Candidate& c) { return c.ms; });
  }

  std::optional<size_t> Median() const {
    std::vector<double> all;
    for (const Candidate& candidate : candidates_) all.push_back(candidate.ms);
    const double median = analysis::Median(std::move(all));
    return Largest(most_kept_, [median](const Candidate& c) { return -std::abs(c.ms - median); });
  }

  // The candidate in which `blamed` has its step of this number; others may number theirs
  // otherwise.
  std::optional<size_t> WithStep(size_t blamed, int64_t number) const {
    for (size_t c = 0; c < candidates_.size(); ++c) {
      for (const auto& [worker, step] : candidates_[c].members) {
        if (worker == blamed && ViewOf(worker).steps[step].number == number) return c;
      }
    }
    return std::nullopt;
  }

  std::optional<size_t> OfTheVerdict() const {
    const Finding& verdict = report_.verdict;
    const size_t blamed = verdict.workers.front();
    if (verdict.single_step.has_value()) {
      return WithStep(blamed, *verdict.single_step);
    }
    return Largest(most_kept_, [&](const Candidate& candidate) {
      std::vector<double> others;
      double own = 0;
      for (const auto& [worker, step] : candidate.members) {
        const auto ns = static_cast<double>(ViewOf(worker).own_ns(step));
        if (worker == blamed) {
          own = ns;
        } else {
          others.push_back(ns);
        }
      }
      return own - analysis::Median(std::move(others));
    });
  }

  std::set<size_t> WorkersOf(const Candidate& candidate) const {
    std::set<size_t> shown;
    std::vector<size_t> others;
    const std::vector<size_t>& named = report_.verdict.workers;
    for (const auto& [worker, step] : candidate.members) {
      if (std::find(named.begin(), named.end(), worker) == named.end()) {
        others.push_back(worker);
      } else if (shown.size() < kMaxShownWorkers / 2) {
        shown.insert(worker);
      }
    }
    std::stable_sort(others.begin(), others.end(), [&](size_t a, size_t b) {
      return report_.workers[a].own_ms.value_or(0) > report_.workers[b].own_ms.value_or(0);
    });
    const size_t room = std::min(kMaxShownWorkers - shown.size(), others.size());
    for (size_t i = 0; i < room; ++i) {
      shown.insert(others[room == 1 ? 0 : i * (others.size() - 1) / (room - 1)]);
    }
    return shown;
  }

  ShownStep Show(const Candidate& candidate) const {
    ShownStep shown;
    shown.number = candidate.number;
    shown.ms = candidate.ms;
    const std::set<size_t> workers = WorkersOf(candidate);
    for (const auto& [worker, step] : candidate.members) {
      if (workers.count(worker) == 0) continue;
      const auto kept = kept_[worker].find(step);
      if (kept == kept_[worker].end()) {
        shown.without.push_back(worker);
        continue;
      }
      shown.workers.push_back(Decode(worker, ViewOf(worker).steps[step], *kept->second));
    }
    shown.common_clock = HaveCommonClock(shown);
    return shown;
  }

  // Clocks that agree, and accounts that overlap.
  bool HaveCommonClock(const ShownStep& shown) const {
    int64_t last_begin_ns = INT64_MIN;
    int64_t first_end_ns = INT64_MAX;
    bool aligned = true;
    for (const ShownWorker& worker : shown.workers) {
      aligned = aligned && ViewOf(worker.worker).digest->aligned();
      last_begin_ns = std::max(last_begin_ns, worker.account.begin_ns);
      first_end_ns = std::min(first_end_ns, worker.account.end_ns);
    }
    return aligned && last_begin_ns < first_end_ns;
  }

  static ShownWorker Decode(size_t worker, const StepView& step,
                            const v1::DigestTimeline::Step& packed, const v1::DigestTimeline& all);
  ShownWorker Decode(size_t worker, const StepView& step,
                     const v1::DigestTimeline::Step& packed) const {
    return Decode(worker, step, packed, ViewOf(worker).digest->timeline());
  }

  const Report& report_;
  std::vector<KeptSteps> kept_;  // per worker
  std::vector<Candidate> candidates_;
  size_t most_kept_ = 0;
  double most_ms_ = 0;
};

// Leaves out inconsistent data: a digest may come from anywhere.
ShownWorker Chooser::Decode(size_t worker, const StepView& step,
                            const v1::DigestTimeline::Step& packed, const v1::DigestTimeline& all) {
  ShownWorker shown;
  shown.worker = worker;
  shown.account = {step.end_ns - step.account_ns, step.end_ns};
  shown.left_out = packed.left_out();
  const int size = std::min({packed.line_size(), packed.name_size(), packed.begin_ns_size(),
                             packed.length_ns_size(), packed.events_size()});
  std::vector<TimelineBlock> blocks;
  uint64_t offset_ns = 0;
  for (int i = 0; i < size; ++i) {
    offset_ns += static_cast<uint64_t>(packed.begin_ns(i));
    TimelineBlock block;
    block.line = packed.line(i);
    block.name = packed.name(i);
    block.events = packed.events(i);
    const auto account_ns = static_cast<uint64_t>(step.account_ns);
    const bool fits = offset_ns < account_ns && packed.length_ns(i) <= account_ns - offset_ns &&
                      block.line < static_cast<uint32_t>(all.lines_size()) &&
                      block.name < static_cast<uint32_t>(all.names_size()) &&
                      block.name < static_cast<uint32_t>(all.what_size());
    if (!fits || blocks.size() == kMaxBlocks) {
      shown.left_out += block.events;
      continue;
    }
    block.what = all.what(static_cast<int>(block.name));
    block.span.begin_ns = shown.account.begin_ns + static_cast<int64_t>(offset_ns);
    block.span.end_ns = block.span.begin_ns + static_cast<int64_t>(packed.length_ns(i));
    blocks.push_back(block);
  }
  const std::vector<uint32_t> rows = RowsOf(blocks);
  std::map<uint32_t, size_t> lines;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const TimelineBlock& block = blocks[i];
    const auto known = lines.find(block.line);
    const bool is_new = known == lines.end();
    if (rows[i] >= kMaxRows || (is_new && lines.size() == kMaxLines)) {
      shown.left_out += block.events;
      continue;
    }
    const size_t place = is_new ? shown.lines.size() : known->second;
    if (is_new) {
      lines.emplace(block.line, place);
      shown.lines.push_back({&all.lines(static_cast<int>(block.line)), 0, {}});
    }
    ShownLine& line = shown.lines[place];
    line.rows = std::max(line.rows, rows[i] + 1);
    line.blocks.push_back(
        {block.span, rows[i], block.what, block.events, &all.names(static_cast<int>(block.name))});
  }
  return shown;
}

}  // namespace

std::vector<ShownStep> ChooseTimeline(const Report& report) { return Chooser(report).Choose(); }

}  // namespace jobscope::analysis
