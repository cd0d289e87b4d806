// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/reduce.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/alignment/waits.h"
#include "analysis/digest/digest_names.h"
#include "analysis/statistics/statistics.h"
#include "analysis/verdict/verdict.h"
#include "analysis/verdict/verdict_text.h"

namespace jobscope::analysis {
namespace {

std::vector<CollectiveRow> CollectiveRows(const Alignment& alignment,
                                          const std::vector<MatchTimes>& matches,
                                          const std::vector<WorkerView>& views) {
  struct Sums {
    CollectiveRow row;
    uint64_t in_matches = 0;  // collectives of workers that belong to matches
    uint64_t seen = 0;        // all collectives of workers
  };
  std::map<std::pair<std::string, std::string>, Sums> rows;
  const auto row_of = [&](const WorkerView& view, const CollectiveView& collective) -> Sums& {
    const std::string group =
        collective.group.has_value() ? view.texts[*collective.group] : std::string();
    Sums& sums = rows[{view.texts[collective.name], group}];
    if (sums.seen == 0) {
      sums.row.name = view.texts[collective.name];
      sums.row.group = group;
    }
    return sums;
  };
  for (const WorkerView& view : views) {
    for (const CollectiveView& collective : view.collectives) {
      Sums& sums = row_of(view, collective);
      ++sums.seen;
      if (collective.bytes.has_value()) {
        sums.row.bytes = sums.row.bytes.value_or(0) + *collective.bytes;
      }
    }
  }
  for (size_t m = 0; m < matches.size(); ++m) {
    const Match& match = alignment.matches[m];
    const Match::Member& first = match.members.front();
    Sums& sums = row_of(views[first.worker], views[first.worker].collectives[first.collective]);
    ++sums.row.count;
    if (match.complete) ++sums.row.matched;
    sums.in_matches += match.members.size();
    sums.row.wait_ms += static_cast<double>(matches[m].wait_ns) / kNsPerMs;
    sums.row.transfer_ms += static_cast<double>(matches[m].transfer_ns) / kNsPerMs;
    if (matches[m].last.has_value()) ++sums.row.last[*matches[m].last];
  }
  std::vector<CollectiveRow> result;
  for (auto& [key, sums] : rows) {
    // A collective known to only one worker is an operation of its own.
    sums.row.count += sums.seen - std::min(sums.seen, sums.in_matches);
    result.push_back(std::move(sums.row));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const CollectiveRow& a, const CollectiveRow& b) {
                     return a.wait_ms + a.transfer_ms > b.wait_ms + b.transfer_ms;
                   });
  return result;
}

std::vector<std::optional<size_t>> LastArrivals(const Alignment& alignment,
                                                const std::vector<MatchTimes>& matches,
                                                const std::vector<WorkerView>& views) {
  std::vector<std::pair<int64_t, size_t>> order;
  for (size_t m = 0; m < matches.size(); ++m) {
    const Match::Member& first = alignment.matches[m].members.front();
    order.emplace_back(views[first.worker].collectives[first.collective].end_ns, m);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::optional<size_t>> last;
  last.reserve(order.size());
  for (const auto& [time_ns, m] : order) last.push_back(matches[m].last);
  return last;
}

using Names = google::protobuf::RepeatedPtrField<v1::DigestName>;

// Sums over workers, by name: the largest rows. Adds the number of other names to `left_out`.
std::vector<NameRow> MergeNames(const std::vector<WorkerRow>& workers,
                                const Names& (v1::Digest::*names)() const, uint64_t* left_out) {
  std::map<std::string, NameRow> rows;
  double all_ms = 0;
  for (const WorkerRow& worker : workers) {
    for (const v1::DigestName& name : (worker.view.digest->*names)()) {
      NameRow& row = rows[name.name()];
      row.name = name.name();
      if (name.class_() < kStepClasses) row.step_class = static_cast<StepClass>(name.class_());
      if (row.source.empty()) row.source = name.source();
      row.count += name.count();
      row.total_ms += static_cast<double>(name.total_ns()) / kNsPerMs;
      row.self_ms += static_cast<double>(name.self_ns()) / kNsPerMs;
      row.max_ms = std::max(row.max_ms, static_cast<double>(name.max_ns()) / kNsPerMs);
      ++row.workers;
      all_ms += static_cast<double>(name.self_ns()) / kNsPerMs;
    }
  }
  std::vector<NameRow> result;
  for (auto& [name, row] : rows) {
    row.share = all_ms > 0 ? row.self_ms / all_ms : 0;
    result.push_back(std::move(row));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const NameRow& a, const NameRow& b) { return a.self_ms > b.self_ms; });
  constexpr size_t kMaxRows = 200;
  if (result.size() > kMaxRows) {
    *left_out += result.size() - kMaxRows;
    result.resize(kMaxRows);
  }
  return result;
}

// Adds the names of the workers in the report: a malformed digest has none.
void AddNames(Report* report) {
  report->operators =
      MergeNames(report->workers, &v1::Digest::operators, &report->operators_left_out);
  uint64_t kernels_left_out = 0;
  report->kernels = MergeNames(report->workers, &v1::Digest::kernels, &kernels_left_out);
  report->kernels_left_out = kernels_left_out;
  for (const WorkerRow& worker : report->workers) {
    const v1::Digest& digest = *worker.view.digest;
    report->operators_left_out += digest.operators_left_out();
    const std::optional<uint64_t> of_digest = KernelsLeftOut(digest);
    if (!of_digest.has_value()) {
      report->kernels_left_out.reset();
    } else if (report->kernels_left_out.has_value()) {
      *report->kernels_left_out += *of_digest;
    }
  }
}

void AddWarnings(const Digests& digests, const Alignment& alignment, Report* report) {
  constexpr size_t kMaxWarnings = 100;
  for (const std::string& warning : digests.run.warnings()) report->warnings.push_back(warning);
  for (const std::string& warning : alignment.warnings) report->warnings.push_back(warning);
  std::map<int64_t, WorkerRow*> ranks;
  size_t without_steps = 0;
  std::string first_without;
  for (WorkerRow& row : report->workers) {
    const v1::Digest& digest = *row.view.digest;
    for (const std::string& warning : digest.warnings()) {
      report->warnings.push_back(absl::StrCat(digest.name(), ": ", warning));
    }
    if (row.view.steps.empty() && ++without_steps == 1) first_without = digest.name();
    if (!digest.has_rank()) continue;
    const auto [known, added] = ranks.emplace(digest.rank(), &row);
    if (!added) {
      known->second->shares_rank = row.shares_rank = true;
      report->warnings.push_back(
          absl::StrCat("rank ", digest.rank(), " twice: ", known->second->view.name, " and ",
                       digest.name(), "; two jobs in one run? Both are in the tables"));
    }
  }
  if (without_steps > 0 && without_steps < report->workers.size()) {
    report->warnings.push_back(absl::StrCat(
        first_without, without_steps > 1 ? absl::StrCat(" and ", without_steps - 1, " more") : "",
        " recorded no steps: left out of the comparison"));
  }
  if (report->warnings.size() > kMaxWarnings) {
    const size_t more = report->warnings.size() - kMaxWarnings;
    report->warnings.resize(kMaxWarnings);
    report->warnings.push_back(absl::StrCat("and ", more, " more warnings"));
  }
}

}  // namespace

Report Reduce(const Digests& digests) {
  Report report;
  report.run = digests.run.run();
  report.has_manifest = digests.run.has_manifest();
  report.missing = digests.missing;

  std::vector<WorkerView> views;
  for (const v1::Digest& digest : digests.workers) {
    absl::StatusOr<WorkerView> view = ViewOf(digest);
    if (view.ok()) {
      views.push_back(*std::move(view));
    } else {
      report.missing.push_back({digest.name(), std::string(view.status().message())});
    }
  }
  std::stable_sort(report.missing.begin(), report.missing.end(),
                   [](const auto& a, const auto& b) { return a.worker < b.worker; });
  report.expected_workers = views.size() + report.missing.size();

  report.alignment = Align(views);
  const Alignment& alignment = report.alignment;
  std::vector<int64_t> unsure_ns;
  const std::vector<MatchTimes> matches = SplitBlocked(alignment, &views, &unsure_ns);
  report.collectives = CollectiveRows(alignment, matches, views);
  report.last_arrivals = LastArrivals(alignment, matches, views);
  for (size_t w = 0; w < views.size(); ++w) {
    WorkerRow row;
    row.view = std::move(views[w]);
    row.unsure_ns = unsure_ns[w];
    SetFigures(&row);
    report.workers.push_back(std::move(row));
  }
  AddNames(&report);
  FindVerdict(alignment, matches, &report);
  AddWarnings(digests, alignment, &report);
  WriteSentences(&report);
  report.timeline = ChooseTimeline(report);
  return report;
}

}  // namespace jobscope::analysis
