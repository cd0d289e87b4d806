// SPDX-License-Identifier: Apache-2.0
#include "analysis/alignment/worker_view.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "analysis/digest/digest_builder.h"

namespace jobscope::analysis {
namespace {

// Bounds times, so that sums cannot overflow; no trace has larger ones.
constexpr int64_t kMaxTimeNs = int64_t{1} << 47;  // 39 hours

absl::Status Malformed(const v1::Digest& digest, const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the digest of ", digest.name(), " is malformed: ", what));
}

bool IsTime(int64_t ns) { return ns >= -kMaxTimeNs && ns <= kMaxTimeNs; }
bool IsLength(uint64_t ns) { return ns <= static_cast<uint64_t>(kMaxTimeNs); }

absl::Status ReadSteps(const v1::Digest& digest, WorkerView* view) {
  const v1::DigestSteps& packed = digest.steps();
  const int count = packed.number_size();
  if (packed.begin_ns_size() != count || packed.length_ns_size() != count ||
      packed.account_ns_size() != count || packed.top_name_size() != count ||
      packed.top_self_ns_size() != count ||
      (packed.blocked_ns_size() != count && packed.blocked_ns_size() != 0) ||
      packed.asleep_ns_size() > count) {
    return Malformed(digest, "its columns of steps differ in length");
  }
  uint64_t number = 0;
  int64_t end_ns = 0;
  for (int i = 0; i < count; ++i) {
    if (!IsTime(packed.begin_ns(i)) || !IsLength(packed.length_ns(i)) ||
        !IsLength(packed.account_ns(i)) || packed.account_ns(i) < packed.length_ns(i)) {
      return Malformed(digest, "a step's times");
    }
    StepView step;
    number += static_cast<uint64_t>(packed.number(i));
    step.number = static_cast<int64_t>(number);
    step.begin_ns = end_ns + packed.begin_ns(i);
    step.end_ns = step.begin_ns + static_cast<int64_t>(packed.length_ns(i));
    if (!IsTime(step.begin_ns) || !IsTime(step.end_ns)) return Malformed(digest, "a step's times");
    step.account_ns = static_cast<int64_t>(packed.account_ns(i));
    end_ns = step.end_ns;
    view->steps.push_back(step);
  }
  std::vector<int64_t> sums(view->steps.size(), 0);
  const auto take = [&](const auto& column, std::vector<int64_t>* out) {
    if (column.size() != count) return false;
    for (int i = 0; i < count; ++i) {
      const auto ns = static_cast<uint64_t>(column.Get(i));
      if (!IsLength(ns)) return false;
      out->push_back(static_cast<int64_t>(ns));
      sums[static_cast<size_t>(i)] += static_cast<int64_t>(ns);
    }
    return true;
  };
  for (const v1::DigestSteps::Column& column : packed.classes()) {
    if (column.class_() >= kStepClasses || !view->class_ns[column.class_()].empty()) {
      return Malformed(digest, "a class");
    }
    if (!take(column.ns(), &view->class_ns[column.class_()])) {
      return Malformed(digest, "a class");
    }
  }
  if (packed.blocked_ns_size() != 0 && !take(packed.blocked_ns(), &view->blocked_ns)) {
    return Malformed(digest, "blocked times");
  }
  for (const uint64_t ns : packed.asleep_ns()) {
    if (!IsLength(ns)) return Malformed(digest, "sleep");
    view->asleep_ns.push_back(static_cast<int64_t>(ns));
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] != view->steps[i].account_ns) return Malformed(digest, "times do not add up");
  }
  return absl::OkStatus();
}

absl::Status ReadCollectives(const v1::Digest& digest, WorkerView* view) {
  const v1::DigestCollectives& packed = digest.collectives();
  const int count = packed.name_size();
  if (packed.group_size() != count || packed.sequence_size() != count ||
      packed.begin_ns_size() != count || packed.length_ns_size() != count ||
      packed.step_size() != count || packed.bytes_size() != count ||
      packed.members_size() != count || packed.blocked_size() != count ||
      packed.blocked_begin_ns_size() != packed.blocked_length_ns_size()) {
    return Malformed(digest, "its columns of collectives differ in length");
  }
  view->texts.assign(packed.texts().begin(), packed.texts().end());
  int64_t begin_ns = 0;
  int64_t all_blocked_ns = 0;
  int blocked = 0;
  for (int i = 0; i < count; ++i) {
    CollectiveView collective;
    if (packed.name(i) >= view->texts.size() || packed.group(i) > view->texts.size() ||
        packed.step(i) > view->steps.size() || packed.sequence(i) < 0 ||
        !IsTime(packed.begin_ns(i)) || !IsLength(packed.length_ns(i)) ||
        packed.blocked(i) > static_cast<uint64_t>(packed.blocked_begin_ns_size() - blocked)) {
      return Malformed(digest, "a collective");
    }
    begin_ns += packed.begin_ns(i);
    if (!IsTime(begin_ns)) return Malformed(digest, "a collective's time");
    collective.name = packed.name(i);
    if (packed.group(i) != 0) collective.group = packed.group(i) - 1;
    if (packed.sequence(i) != 0) collective.sequence = packed.sequence(i) - 1;
    collective.begin_ns = begin_ns;
    collective.end_ns = begin_ns + static_cast<int64_t>(packed.length_ns(i));
    if (packed.step(i) != 0) collective.step = packed.step(i) - 1;
    if (packed.bytes(i) != 0) collective.bytes = packed.bytes(i) - 1;
    collective.group_size = packed.members(i);
    for (uint32_t b = 0; b < packed.blocked(i); ++b, ++blocked) {
      if (!IsLength(packed.blocked_begin_ns(blocked)) ||
          !IsLength(packed.blocked_length_ns(blocked))) {
        return Malformed(digest, "blocked times");
      }
      const int64_t from_ns = begin_ns + static_cast<int64_t>(packed.blocked_begin_ns(blocked));
      const auto length_ns = static_cast<int64_t>(packed.blocked_length_ns(blocked));
      collective.blocked.push_back({from_ns, from_ns + length_ns});
      collective.blocked_ns += length_ns;
      all_blocked_ns += length_ns;
      if (all_blocked_ns > kMaxTimeNs) return Malformed(digest, "blocked times");
    }
    view->collectives.push_back(std::move(collective));
  }
  return absl::OkStatus();
}

}  // namespace

bool WorkerView::Knows(StepClass step_class) const {
  switch (step_class) {
    case StepClass::kNotRunning:
      return !class_ns[Index(step_class)].empty();
    case StepClass::kDeviceCompute:
    case StepClass::kDeviceCopy:
      return !class_ns[Index(StepClass::kDeviceCompute)].empty() ||
             !class_ns[Index(StepClass::kDeviceCopy)].empty();
    default:
      return true;
  }
}

int64_t ClockUncertaintyNs(const v1::Digest& digest) {
  constexpr uint64_t kMaxUncertaintyNs = 1'000'000'000'000;
  return static_cast<int64_t>(std::min(digest.clock_uncertainty_ns(), kMaxUncertaintyNs));
}

absl::StatusOr<WorkerView> ViewOf(const v1::Digest& digest) {
  if (digest.schema() != kDigestSchema) {
    return absl::InvalidArgumentError(
        absl::StrCat("the digest of ", digest.name(), " has schema ", digest.schema(),
                     ", this program knows ", kDigestSchema,
                     digest.schema() < kDigestSchema ? "; write it again from the run"
                                                     : "; use a newer jobscope"));
  }
  WorkerView view;
  view.digest = &digest;
  view.name = digest.name();
  absl::Status status = ReadSteps(digest, &view);
  if (status.ok()) status = ReadCollectives(digest, &view);
  if (!status.ok()) return status;
  return view;
}

}  // namespace jobscope::analysis
