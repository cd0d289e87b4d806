// SPDX-License-Identifier: Apache-2.0
#include "analysis/report/input_view.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "analysis/report/report.h"

namespace jobscope::analysis {

InputView InputOf(const Report& report) {
  InputView view;
  std::map<std::string, InputName> names;
  for (size_t w = 0; w < report.workers.size(); ++w) {
    const WorkerRow& row = report.workers[w];
    const std::optional<double>& ms = row.classes_ms[Index(StepClass::kInput)];
    if (!ms.has_value() || !row.mean_ms.has_value()) continue;
    view.workers.push_back({w, *ms, *row.mean_ms > 0 ? *ms / *row.mean_ms : 0});
    const double per_step = static_cast<double>(row.view.steps.size()) * kNsPerMs;
    for (const v1::DigestName& name : row.view.digest->operators()) {
      if (name.input_ns() == 0) continue;
      const double of_worker_ms = static_cast<double>(name.input_ns()) / per_step;
      InputName& found = names[name.name()];
      found.name = name.name();
      if (found.source.empty()) found.source = name.source();
      found.is_wait = found.is_wait || name.class_() == static_cast<uint32_t>(StepClass::kInput);
      found.ms += of_worker_ms;
      if (found.workers++ == 0 || of_worker_ms > found.most_ms) {
        found.most_ms = of_worker_ms;
        found.most_in = w;
      }
    }
  }
  std::stable_sort(view.workers.begin(), view.workers.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  for (auto& [name, found] : names) {
    found.ms /= static_cast<double>(view.workers.size());
    view.names.push_back(std::move(found));
  }
  std::stable_sort(view.names.begin(), view.names.end(), [](const auto& a, const auto& b) {
    return std::make_tuple(a.is_wait, a.ms) > std::make_tuple(b.is_wait, b.ms);
  });
  constexpr size_t kMaxNames = 50;  // more than a loader has; bounds the page
  if (view.names.size() > kMaxNames) {
    view.names_left_out = view.names.size() - kMaxNames;
    view.names.resize(kMaxNames);
  }
  return view;
}

}  // namespace jobscope::analysis
