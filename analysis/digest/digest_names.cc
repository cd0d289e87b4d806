// SPDX-License-Identifier: Apache-2.0
#include "analysis/digest/digest_names.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace jobscope::analysis {
namespace {

// Maximum number of distinct names in a digest; further ones take less than a thousandth of the
// time.
constexpr size_t kMaxOperators = 400;
constexpr size_t kMaxKernels = 300;

// Fills `names` with the largest ones, and adds the number of others to `left_out`. Returns for
// each index of the table its new index plus 1, or 0.
std::vector<uint32_t> FillNames(const NameTable& table, size_t limit, uint64_t* left_out,
                                google::protobuf::RepeatedPtrField<v1::DigestName>* names) {
  std::vector<uint32_t> order(table.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const auto rank = [](const NameTotals& totals) {
      return std::max({totals.self_ns, totals.step_self_ns, totals.input_ns});
    };
    const int64_t a_ns = rank(table[a]);
    const int64_t b_ns = rank(table[b]);
    return a_ns != b_ns ? a_ns > b_ns : table[a].name < table[b].name;
  });
  std::vector<uint32_t> places(table.size(), 0);
  for (const uint32_t index : order) {
    const NameTotals& totals = table[index];
    if (totals.count == 0) continue;
    if (static_cast<size_t>(names->size()) == limit) {
      ++*left_out;
      continue;
    }
    v1::DigestName* name = names->Add();
    name->set_name(totals.name);
    name->set_class_(static_cast<uint32_t>(ClassOf(totals.kind)));
    name->set_count(totals.count);
    name->set_total_ns(static_cast<uint64_t>(std::max<int64_t>(0, totals.total_ns)));
    name->set_self_ns(static_cast<uint64_t>(std::max<int64_t>(0, totals.self_ns)));
    name->set_max_ns(static_cast<uint64_t>(std::max<int64_t>(0, totals.max_ns)));
    name->set_step_self_ns(static_cast<uint64_t>(std::max<int64_t>(0, totals.step_self_ns)));
    name->set_source(totals.source);
    name->set_input_ns(static_cast<uint64_t>(std::max<int64_t>(0, totals.input_ns)));
    places[index] = static_cast<uint32_t>(names->size());
  }
  return places;
}

}  // namespace

void AddStepTimesOfHelpers(const std::vector<Interval>& accounts,
                           const std::vector<HostLine*>& helpers, NameTable* operators) {
  Intervals together;
  double all_ns = 0;
  for (const HostLine* const line : helpers) {
    together = Union(together, line->times().host);
    all_ns += static_cast<double>(Length(line->times().host));
  }
  if (all_ns <= 0) return;
  const double share = static_cast<double>(Length(Intersect(together, Union(accounts)))) / all_ns;
  for (const HostLine* const line : helpers) {
    for (const auto& [name, ns] : line->self_ns()) {
      (*operators)[name].step_self_ns += std::llround(share * static_cast<double>(ns));
    }
  }
}

void SetStepTimesOfKernels(const std::vector<Interval>& accounts, WorkerTrace* trace) {
  const Intervals in_steps = Union(accounts);
  const auto share = [&](const DeviceTimes& times) {
    const auto in_steps_ns = static_cast<double>(Length(Intersect(times.spans, in_steps)));
    return times.sum_ns > 0 ? in_steps_ns / times.sum_ns : 0;
  };
  DeviceTimes collectives;
  for (const CollectiveEvent& collective : trace->collectives) {
    if (!collective.call.on_device) continue;
    collectives.spans.push_back(collective.call.span);
    collectives.sum_ns += static_cast<double>(collective.call.span.length_ns());
  }
  collectives.spans = Union(std::move(collectives.spans));
  const double of_compute = share(trace->device_compute);
  const double of_copies = share(trace->device_copy);
  const double of_collectives = share(collectives);
  for (uint32_t i = 0; i < trace->kernels.size(); ++i) {
    NameTotals& kernel = trace->kernels[i];
    const StepClass step_class = ClassOf(kernel.kind);
    const double of_class = step_class == StepClass::kTransfer     ? of_collectives
                            : step_class == StepClass::kDeviceCopy ? of_copies
                                                                   : of_compute;
    kernel.step_self_ns = std::llround(of_class * static_cast<double>(kernel.self_ns));
  }
}

std::vector<uint32_t> FillOperators(const NameTable& table, v1::Digest* digest) {
  uint64_t left_out = table.left_out();
  std::vector<uint32_t> places =
      FillNames(table, kMaxOperators, &left_out, digest->mutable_operators());
  digest->set_operators_left_out(left_out);
  return places;
}

void FillKernels(const NameTable& table, v1::Digest* digest) {
  uint64_t left_out = table.left_out();
  FillNames(table, kMaxKernels, &left_out, digest->mutable_kernels());
  digest->set_kernels_left_out(left_out);
}

std::optional<uint64_t> KernelsLeftOut(const v1::Digest& digest) {
  if (digest.has_kernels_left_out()) return digest.kernels_left_out();
  if (static_cast<size_t>(digest.kernels_size()) < kMaxKernels) return uint64_t{0};
  return std::nullopt;
}

uint64_t LargestLeftOutNs(const v1::Digest& digest, bool kernels) {
  const uint64_t left_out =
      kernels ? KernelsLeftOut(digest).value_or(1) : digest.operators_left_out();
  if (left_out == 0) return 0;
  uint64_t smallest_ns = UINT64_MAX;
  uint64_t others_ns = 0;
  for (const v1::DigestName& name : kernels ? digest.kernels() : digest.operators()) {
    const uint64_t ns = std::max({name.self_ns(), name.step_self_ns(), name.input_ns()});
    smallest_ns = std::min(smallest_ns, ns);
    // Names that the table of names had no room for came last, and may be larger than the others.
    if (name.name() == NameTable::kOthers) others_ns = ns;
  }
  return smallest_ns == UINT64_MAX ? 0 : std::max(smallest_ns, others_ns);
}

}  // namespace jobscope::analysis
