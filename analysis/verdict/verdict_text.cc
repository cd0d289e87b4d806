// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/verdict_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analysis/blame/advice.h"
#include "analysis/blame/bounds.h"
#include "analysis/report/sure_text.h"
#include "analysis/text/milliseconds.h"
#include "analysis/verdict/common_times.h"

namespace jobscope::analysis {
namespace {

// Returns how many workers the verdict is about.
size_t Compared(const Report& report) { return report.alignment.workers.size(); }

std::string Titles(const std::vector<size_t>& workers, const Report& report) {
  constexpr size_t kMaxTitles = 4;
  std::vector<std::string> titles;
  for (const size_t w : workers) {
    if (titles.size() == kMaxTitles) {
      titles.push_back(absl::StrCat("and ", workers.size() - kMaxTitles, " more"));
      break;
    }
    titles.push_back(TitleOf(report.workers[w]));
  }
  return absl::StrJoin(titles, ", ");
}

std::string Title(const Finding& finding, const Report& report) {
  if (finding.workers.empty()) {
    return absl::StrCat("all ", Compared(report), " workers");
  }
  if (!finding.gpu_model.empty()) {
    return absl::StrCat("GPU model ", finding.gpu_model, " (", finding.workers.size(), " workers)");
  }
  if (!finding.node.empty()) {
    return absl::StrCat("node ", finding.node, " (", finding.workers.size(), " workers)");
  }
  return Titles(finding.workers, report);
}

// Returns "in 4 of 40 steps".
std::string LateSteps(const Finding& finding, const Report& report) {
  return absl::StrCat("in ", finding.late_steps, " of ", report.alignment.common(), " steps");
}

std::string ClassWord(const Finding& finding) {
  return finding.step_class.has_value() ? std::string(ClassTitle(*finding.step_class))
                                        : std::string("no cause recorded");
}

// Returns "host work takes", "device copies take".
std::string ClassTakes(const Finding& finding) {
  const bool plural = finding.step_class == StepClass::kDeviceCopy;
  return absl::StrCat(ClassWord(finding), plural ? " take" : " takes");
}

double Percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

// Returns "next_batch 74 ms per step (others 9), loader.py:88".
std::string CulpritText(const Culprit& culprit) {
  std::string text = absl::StrCat(culprit.name, culprit.at_least ? " at least " : " ",
                                  Milliseconds(culprit.ms), " per step");
  if (culprit.others_ms.has_value()) {
    absl::StrAppend(&text, " (others ", Milliseconds(*culprit.others_ms), ")");
  } else if (culprit.others_at_most_ms.has_value()) {
    absl::StrAppend(&text, " (others at most ", Milliseconds(*culprit.others_at_most_ms), ")");
  }
  if (culprit.compilations > 0) absl::StrAppend(&text, ", ", culprit.compilations, " times");
  if (!culprit.source.empty()) absl::StrAppend(&text, ", ", culprit.source);
  return text;
}

std::string LimitText(const LimitFound& found, bool one) {
  const char* whose = one ? "its" : "their";
  const auto share = [&](const char* what, double factor, const char* of) {
    return absl::StrFormat("%s %s in %.0f %% of %s (others %.0f %%)", whose, what,
                           factor * found.value, of, factor * found.others);
  };
  switch (found.limit) {
    case Limit::kHeat:
      return share("GPU's clocks are limited by heat", 100, "the samples");
    case Limit::kPower:
      return share("GPU's clocks are limited by power", 100, "the samples");
    case Limit::kClock:
      return absl::StrFormat("%s GPU runs at %.0f MHz (others %.0f)", whose, found.value,
                             found.others);
    case Limit::kQuota:
      return share("cgroup uses up its CPU quota", 1, "its periods");
  }
  return {};
}

void AddCause(Finding* finding) {
  if (finding->class_ms.has_value() && finding->step_class.has_value()) {
    std::string line = absl::StrCat(ClassWord(*finding), " ", Milliseconds(*finding->class_ms));
    if (finding->single_step.has_value()) {
      absl::StrAppend(&line, " in step ", *finding->single_step);
    } else {
      absl::StrAppend(&line, " per step");
    }
    if (finding->class_others_ms.has_value()) {
      absl::StrAppend(&line, " (others ", Milliseconds(*finding->class_others_ms), ")");
    } else if (finding->step_ms.has_value() && !finding->single_step.has_value()) {
      absl::StrAppendFormat(&line, ", %.0f %% of %s",
                            Percent(*finding->class_ms, *finding->step_ms),
                            Milliseconds(*finding->step_ms));
    }
    finding->why.push_back(std::move(line));
  }
  if (finding->unrecorded_class.has_value()) {
    finding->why.push_back(absl::StrFormat(
        "not recorded here: %s (others %s%s); part of this may be that time",
        ClassTitle(*finding->unrecorded_class), Milliseconds(*finding->unrecorded_others_ms),
        finding->single_step.has_value() ? "" : " per step"));
  }
  if (finding->asleep_ms.has_value()) {
    finding->why.push_back(absl::StrCat("its thread sleeps for ", Milliseconds(*finding->asleep_ms),
                                        " per step where no wait is recorded: for a lock, a "
                                        "socket, a file or a timer"));
  }
  if (finding->device_idle_ms.has_value()) {
    finding->why.push_back(absl::StrCat("the device is idle for ",
                                        Milliseconds(*finding->device_idle_ms), " of ",
                                        Milliseconds(*finding->step_ms), " per step"));
  }
  for (const LimitFound& found : finding->limits) {
    finding->why.push_back(LimitText(found, finding->workers.size() == 1));
  }
  for (const Culprit& culprit : finding->names) {
    finding->why.push_back(finding->single_step.has_value()
                               ? absl::StrCat(culprit.name, " ", Milliseconds(culprit.ms),
                                              culprit.source.empty() ? "" : ", ", culprit.source)
                               : CulpritText(culprit));
  }
  for (const RareClass& rare : finding->rare) {
    const std::string steps =
        rare.of_steps > 0 ? absl::StrCat(" in ", rare.steps, " of ", rare.of_steps, " steps")
                          : std::string();
    finding->why.push_back(absl::StrFormat("not counted: %s, %s%s; capture later, or longer",
                                           ClassTitle(rare.step_class), Milliseconds(rare.ms),
                                           steps));
  }
}

std::string GainText(const Finding& finding) {
  if (!finding.gain.has_value() || !finding.mended_step_ms.has_value()) return {};
  std::string text = absl::StrFormat("%s (%s-%.0f %%", Milliseconds(*finding.mended_step_ms),
                                     finding.gain_at_most ? "at most " : "", 100 * *finding.gain);
  if (finding.gain_low.has_value() && finding.gain_high.has_value()) {
    absl::StrAppendFormat(&text, ", %.0f to %.0f", 100 * std::max(0.0, *finding.gain_low),
                          100 * *finding.gain_high);
  }
  return text + ")";
}

// Returns whether Python functions of these workers were recorded, by sampling or by calls. Sampled
// ones have a timeline of their own, so they explain no time of the step thread.
bool HasPythonFunctions(const Report& report, const Finding& finding) {
  const auto has = [](const WorkerRow& row) {
    const auto& names = row.view.digest->operators();
    return std::any_of(names.begin(), names.end(), [](const v1::DigestName& name) {
      return absl::StartsWith(name.name(), "$");
    });
  };
  if (finding.workers.empty()) {
    return std::any_of(report.workers.begin(), report.workers.end(), has);
  }
  return std::any_of(finding.workers.begin(), finding.workers.end(),
                     [&](size_t w) { return has(report.workers[w]); });
}

std::string AdviceText(const Report& report, const Finding& finding) {
  if (finding.step_class == StepClass::kWaiting && UnknownWorkers(report) == 0 &&
      report.workers.size() > 1) {
    if (!finding.latest.empty()) {
      return AdviceForLatest(Titles(finding.latest, report), LateSteps(finding, report));
    }
    return std::string(finding.within_steps ? kAdviceWithinSteps : kAdviceForTurns);
  }
  if (!finding.limits.empty()) return std::string(AdviceForLimit(finding.limits.front().limit));
  if (finding.step_class == StepClass::kUnexplained) {
    if (HasPythonFunctions(report, finding)) return std::string(kAdviceForPythonFunctions);
    if (finding.asleep_ms.has_value()) return std::string(kAdviceForSleep);
  }
  if (finding.step_class == StepClass::kHost && finding.device_idle_ms.has_value()) {
    if (finding.asleep_ms.has_value()) return std::string(kAdviceForSleep);
    return std::string(kAdviceForIdleDevice);
  }
  const std::string_view name =
      finding.names.empty() ? std::string_view() : std::string_view(finding.names.front().name);
  const bool straggler =
      finding.kind == Finding::Kind::kStraggler || finding.class_others_ms.has_value();
  return std::string(AdviceFor(*finding.step_class, name, straggler));
}

// Returns whether all workers that are compared record the same classes of time.
bool RecordSameClasses(const Report& report) {
  const std::vector<size_t>& workers = report.alignment.workers;
  return std::all_of(workers.begin(), workers.end(), [&](size_t w) {
    for (size_t c = 0; c < kStepClasses; ++c) {
      const auto step_class = static_cast<StepClass>(c);
      if (report.workers[w].view.Knows(step_class) !=
          report.workers[workers.front()].view.Knows(step_class)) {
        return false;
      }
    }
    return true;
  });
}

void WriteStraggler(const Report& report, Finding* finding) {
  const std::string who = Title(*finding, report);
  const double factor =
      *finding->mended_step_ms > 0 ? *finding->step_ms / *finding->mended_step_ms : 1;
  if (finding->single_step.has_value()) {
    finding->text = absl::StrCat("one step is slow: step ", *finding->single_step, " on ", who,
                                 ", ", ClassWord(*finding));
  } else {
    const std::string when =
        finding->late_steps > 0 ? ", " + LateSteps(*finding, report) : std::string();
    finding->text = absl::StrFormat("%s%.2fx slower than its median rank allows%s: %s, %s",
                                    finding->gain_at_most ? "at most " : "", factor, when, who,
                                    ClassWord(*finding));
  }
  if (finding->last_of > 0) {
    // Without the size of a group its members are those of the run: others may have been later.
    const bool all_known = UnknownWorkers(report) == 0;
    std::string line =
        absl::StrCat(all_known ? "last" : "last of the known workers", " to arrive at ",
                     finding->last_count, " of ", finding->last_of, " ", finding->last_name);
    if (finding->wait_ms.has_value()) {
      absl::StrAppend(&line, "; the others wait ", Milliseconds(*finding->wait_ms), " of ",
                      Milliseconds(*finding->step_ms), " per step");
    }
    finding->why.push_back(std::move(line));
  }
  AddCause(finding);
  if (finding->step_class.has_value()) {
    finding->advice = AdviceText(report, *finding);
  } else if (!RecordSameClasses(report)) {
    finding->advice = std::string(kAdviceSameCollectors);
  } else if (!finding->single_step.has_value()) {
    finding->advice = std::string(kAdviceNoClass);
  }
  const std::string one = finding->workers.size() == 1 ? "it were" : "they were";
  const std::string gain = finding->single_step.has_value()
                               ? absl::StrCat("without it: ", GainText(*finding), " over all steps")
                               : absl::StrCat("if ", one, " median: ", GainText(*finding));
  absl::StrAppend(&finding->advice, finding->advice.empty() ? "" : "; ", gain);
}

void WriteBound(const Report& report, Finding* finding) {
  const std::string who = Title(*finding, report);
  const Bound& bound = BoundOf(*finding->step_class);
  if (finding->class_others_ms.has_value()) {
    // One of several workers that do not wait for each other.
    finding->text = absl::StrFormat(
        "%s is slow: %s per step, %s: %s", who, Milliseconds(*finding->step_ms), bound.title,
        absl::StrCat(ClassWord(*finding), " ", Milliseconds(*finding->class_ms), ", others ",
                     Milliseconds(*finding->class_others_ms)));
  } else if (*finding->step_class == StepClass::kUnexplained) {
    finding->text = absl::StrFormat("%s: %.0f %% of %s per step are unexplained", who,
                                    Percent(*finding->class_ms, *finding->step_ms),
                                    Milliseconds(*finding->step_ms));
  } else {
    finding->text = absl::StrFormat(
        "%s: %s, %s %.0f %% of %s per step", who, bound.title, ClassTakes(*finding),
        Percent(*finding->class_ms, *finding->step_ms), Milliseconds(*finding->step_ms));
  }
  AddCause(finding);
  finding->advice = AdviceText(report, *finding);
  const std::string gain = GainText(*finding);
  if (gain.empty()) return;
  absl::StrAppend(
      &finding->advice,
      finding->class_others_ms.has_value() ? "; with as much as the others: " : "; without it: ",
      gain);
}

void WriteBalanced(const Report& report, Finding* finding) {
  if (!finding->workers.empty()) {
    finding->text =
        absl::StrCat(Title(*finding, report), ": balanced, no class of time stands out");
  } else {
    // Workers that are not known to wait for each other are compared by their steps as a whole.
    finding->text =
        absl::StrCat("balanced: no worker of ", Compared(report),
                     report.alignment.synchronous ? " stands out"
                                                  : " takes much longer per step than the others");
  }
  if (finding->step_ms.has_value() && finding->class_ms.has_value()) {
    absl::StrAppendFormat(&finding->text, "; %s %.0f %% of %s per step", ClassTakes(*finding),
                          Percent(*finding->class_ms, *finding->step_ms),
                          Milliseconds(*finding->step_ms));
  }
  AddCause(finding);
  if (!finding->step_class.has_value()) return;
  if (!finding->next_class.has_value()) {
    finding->advice = AdviceText(report, *finding);
    return;
  }
  Finding next;
  next.workers = finding->workers;
  next.step_class = finding->next_class;
  next.latest = finding->latest;
  next.late_steps = finding->late_steps;
  next.within_steps = finding->within_steps;
  finding->why.push_back(absl::StrFormat(
      "then %s %s per step, %.0f %% of %s", ClassWord(next), Milliseconds(*finding->next_ms),
      Percent(*finding->next_ms, *finding->step_ms), Milliseconds(*finding->step_ms)));
  finding->advice = absl::StrCat(ClassWord(next), ": ", AdviceText(report, next));
}

void Write(const Report& report, Finding* finding) {
  finding->why.clear();
  switch (finding->kind) {
    case Finding::Kind::kStraggler:
      WriteStraggler(report, finding);
      break;
    case Finding::Kind::kBound:
      WriteBound(report, finding);
      break;
    case Finding::Kind::kBalanced:
      WriteBalanced(report, finding);
      break;
    case Finding::Kind::kUndecidable:
      finding->text = absl::StrCat("not decidable: ", finding->why_undecidable);
      break;
  }
}

}  // namespace

void WriteSentences(Report* report) {
  Write(*report, &report->verdict);
  for (Finding& finding : report->findings) Write(*report, &finding);
  report->sure = SureText(*report);
}

}  // namespace jobscope::analysis
