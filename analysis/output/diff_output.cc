// SPDX-License-Identifier: Apache-2.0
#include "analysis/output/diff_output.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/text/milliseconds.h"
#include "analysis/text/text_table.h"
#include "common/text/foreign_text.h"

namespace jobscope::analysis {
namespace {

nlohmann::ordered_json DifferencesJson(const std::vector<Difference>& differences) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const auto rounded = [](double value) { return std::round(value * 1e6) / 1e6; };
  for (const Difference& difference : differences) {
    nlohmann::ordered_json entry = {{"name", difference.name}};
    const auto add = [&](const char* key, std::optional<double> ms) {
      if (ms.has_value()) entry[key] = rounded(*ms);
    };
    add("before_ms", difference.before_ms);
    add("after_ms", difference.after_ms);
    add("change_ms", difference.delta_ms());
    add("low_ms", difference.low_ms);
    add("high_ms", difference.high_ms);
    list.push_back(std::move(entry));
  }
  return list;
}

std::string DifferencesTable(const char* title, const std::vector<Difference>& differences) {
  const auto has_interval = [](const Difference& difference) {
    return difference.low_ms.has_value() && difference.high_ms.has_value();
  };
  const bool intervals = std::any_of(differences.begin(), differences.end(), has_interval);
  std::vector<TextTable::Column> columns = {
      {title, 50}, {"BEFORE ms"}, {"AFTER ms"}, {"CHANGE ms"}};
  if (intervals) columns.push_back({"95 % INTERVAL ms"});
  TextTable table(std::move(columns));
  constexpr size_t kMaxRows = 12;
  for (const Difference& difference : differences) {
    if (table.rows() == kMaxRows) break;
    const auto cell = [](std::optional<double> ms, bool sign) {
      if (!ms.has_value()) return std::string("–");
      return sign ? absl::StrFormat("%+.3f", *ms) : absl::StrFormat("%.3f", *ms);
    };
    std::vector<std::string> cells = {difference.name, cell(difference.before_ms, /*sign=*/false),
                                      cell(difference.after_ms, /*sign=*/false),
                                      cell(difference.delta_ms(), /*sign=*/true)};
    if (intervals) {
      cells.push_back(
          has_interval(difference)
              ? absl::StrFormat("%+.3f to %+.3f", *difference.low_ms, *difference.high_ms)
              : std::string("–"));
    }
    table.Add(std::move(cells));
  }
  return table.rows() == 0 ? std::string() : absl::StrCat("\n", table.Text());
}

// The time of a name of which digests left out the exact one: "at most 0.02 ms".
std::string KnownTime(std::optional<double> ms, std::optional<double> at_most_ms) {
  if (ms.has_value()) return Milliseconds(*ms);
  return absl::StrCat("at most ", Milliseconds(at_most_ms.value_or(0)));
}

// The change, or the least that it can be; 0: not known.
double SureChange(const Difference& difference) {
  if (difference.delta_ms().has_value()) return *difference.delta_ms();
  const double least_ms = difference.least_change_ms().value_or(0);
  return difference.after_ms.has_value() ? least_ms : -least_ms;
}

}  // namespace

std::string DiffText(const RunDiff& diff, double gate_percent) {
  const auto step = [](std::optional<double> ms) {
    return ms.has_value() ? Milliseconds(*ms) : std::string("not known");
  };
  std::string text =
      absl::StrFormat("OUTCOME  %s: %s per step, before %s", OutcomeName(diff.outcome),
                      step(diff.after_ms), step(diff.before_ms));
  if (diff.change.has_value()) {
    absl::StrAppendFormat(&text, ": %+.1f %% (", 100 * *diff.change);
    if (diff.change_low.has_value() && diff.change_high.has_value()) {
      absl::StrAppendFormat(&text, "%+.1f to %+.1f; ", 100 * *diff.change_low,
                            100 * *diff.change_high);
    }
    absl::StrAppendFormat(&text, "gate %g %%)", gate_percent);
  }
  text += "\n";
  const auto line = [&text](const char* label, const Difference& difference) {
    absl::StrAppendFormat(&text, "%-8s %s: %s per step, before %s\n", label,
                          OneLineInColumns(difference.name, 50),
                          KnownTime(difference.after_ms, difference.after_at_most_ms),
                          KnownTime(difference.before_ms, difference.before_at_most_ms));
  };
  // What became slower explains a slower run, however much faster something else became.
  const auto explain = [&](const char* label, const std::vector<Difference>& differences) {
    const auto found =
        std::find_if(differences.begin(), differences.end(), [&](const Difference& difference) {
          return SureChange(difference) * diff.change.value_or(0) > 0;
        });
    if (found != differences.end()) line(label, *found);
  };
  explain("CLASS", diff.classes);
  explain("NAME", diff.names);
  if (!diff.why_inconclusive.empty()) {
    absl::StrAppend(&text, "WHY      ", diff.why_inconclusive, "\n");
  }
  absl::StrAppend(&text, DifferencesTable("CLASS", diff.classes),
                  DifferencesTable("SCOPE, OPERATOR OR KERNEL", diff.names));
  if (!diff.warnings.empty()) text += "\n";
  for (const std::string& warning : diff.warnings) {
    absl::StrAppend(&text, Labelled("WARNING", warning));
  }
  return text;
}

std::string DiffJson(const RunDiff& diff) {
  nlohmann::ordered_json root;
  const auto add = [](nlohmann::ordered_json* object, const char* key,
                      std::optional<double> value) {
    if (value.has_value()) (*object)[key] = *value;
  };
  root["schema"] = 3;
  root["outcome"] = OutcomeName(diff.outcome);
  root["step_ms"] = nlohmann::ordered_json::object();
  add(&root["step_ms"], "before", diff.before_ms);
  add(&root["step_ms"], "after", diff.after_ms);
  add(&root, "change", diff.change);
  add(&root, "change_low", diff.change_low);
  add(&root, "change_high", diff.change_high);
  if (!diff.why_inconclusive.empty()) root["why_inconclusive"] = diff.why_inconclusive;
  root["classes"] = DifferencesJson(diff.classes);
  root["names"] = DifferencesJson(diff.names);
  if (!diff.warnings.empty()) root["warnings"] = diff.warnings;
  return EscapeControls(
             root.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) +
         "\n";
}

}  // namespace jobscope::analysis
