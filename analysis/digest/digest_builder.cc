// SPDX-License-Identifier: Apache-2.0
#include "analysis/digest/digest_builder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/digest/digest_collectives.h"
#include "analysis/digest/digest_counters.h"
#include "analysis/digest/digest_names.h"
#include "analysis/steps/intervals.h"
#include "analysis/steps/partition.h"
#include "common/run/outcome.h"
#include "common/xspace/segment/loss_cause.h"

namespace jobscope::analysis {
namespace {

// The thread whose steps count as the worker's, and these steps: those with the name that takes
// most time.
struct StepThread {
  int64_t id = 0;
  HostLine* line = nullptr;
  uint32_t name = 0;
  std::vector<StepEvent> steps;  // sorted, disjoint
  size_t elsewhere = 0;          // steps with that name on other threads
};

StepThread ChooseStepThread(WorkerTrace* trace) {
  StepThread chosen;
  int64_t longest_ns = -1;
  for (auto& [id, line] : trace->threads) {
    std::map<uint32_t, int64_t> total_ns;
    for (const StepEvent& step : line->steps()) {
      total_ns[step.name] += step.span.end_ns - step.span.begin_ns;
    }
    for (const auto& [name, ns] : total_ns) {
      if (ns <= longest_ns) continue;
      longest_ns = ns;
      chosen.id = id;
      chosen.line = line.get();
      chosen.name = name;
    }
  }
  if (chosen.line == nullptr) return chosen;
  for (const auto& [id, line] : trace->threads) {
    for (const StepEvent& step : line->steps()) {
      if (step.name != chosen.name) continue;
      if (line.get() == chosen.line) {
        chosen.steps.push_back(step);
      } else {
        ++chosen.elsewhere;
      }
    }
  }
  return chosen;
}

// Returns the threads that work while the step thread waits for them.
std::vector<HostLine*> HelpersOf(const StepThread& thread, const WorkerTrace& trace) {
  std::vector<HostLine*> helpers;
  for (const auto& [id, line] : trace.threads) {
    if (line.get() != thread.line && line->is_helper()) helpers.push_back(line.get());
  }
  return helpers;
}

// Returns the times of the step thread and of its helpers.
RecordedTimes TimesOf(const StepThread& thread, const std::vector<HostLine*>& helpers,
                      WorkerTrace* trace) {
  RecordedTimes times = thread.line->times();
  for (const StepEvent& step : thread.line->steps()) {
    // Steps of another name count as work, like scopes.
    if (step.name != thread.name) times.host.push_back({step.span.begin_ns, step.span.end_ns});
  }
  times.host = Union(std::move(times.host));
  times.device_compute = std::move(trace->device_compute.spans);
  times.device_copy = std::move(trace->device_copy.spans);
  for (const HostLine* const line : helpers) {
    const std::vector<BusyBlock>& busy = line->times().busy;
    times.busy.insert(times.busy.end(), busy.begin(), busy.end());
    times.compilation = Union(times.compilation, line->times().compilation);
    times.garbage_collection = Union(times.garbage_collection, line->times().garbage_collection);
    times.helper_launch = Union(times.helper_launch, line->times().launch);
    times.helper_host = Union(times.helper_host, line->times().host);
  }
  std::sort(times.busy.begin(), times.busy.end(), [](const BusyBlock& a, const BusyBlock& b) {
    return a.span.begin_ns < b.span.begin_ns;
  });
  // Overlapping blocks of several threads become their union.
  std::vector<BusyBlock> disjoint;
  for (const BusyBlock& block : times.busy) {
    if (!disjoint.empty() && block.span.begin_ns < disjoint.back().span.end_ns) {
      disjoint.back().span.end_ns = std::max(disjoint.back().span.end_ns, block.span.end_ns);
      disjoint.back().merged = true;
    } else {
      disjoint.push_back(block);
    }
  }
  times.busy = std::move(disjoint);
  return times;
}

std::vector<CollectiveEvent> CollectivesOf(const StepThread& thread, std::vector<HostLine*> lines,
                                           WorkerTrace* trace) {
  lines.push_back(thread.line);
  std::vector<CollectiveEvent> all = std::move(trace->collectives);
  for (HostLine* const line : lines) {
    std::move(line->collectives().begin(), line->collectives().end(), std::back_inserter(all));
  }
  std::stable_sort(all.begin(), all.end(), [](const CollectiveEvent& a, const CollectiveEvent& b) {
    return a.call.span.begin_ns < b.call.span.begin_ns;
  });
  return all;
}

void FillSteps(const std::vector<StepEvent>& steps, const std::vector<Interval>& accounts,
               const Partition& partition, const std::vector<uint32_t>& places,
               v1::DigestSteps* out) {
  int64_t number = 0;
  int64_t end_ns = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepSpan& step = steps[i].span;
    const int64_t begin_ns = std::max(step.begin_ns, accounts[i].begin_ns);
    // Computed unsigned: numbers come from the program and may have any 64 bits.
    out->add_number(
        static_cast<int64_t>(static_cast<uint64_t>(step.number) - static_cast<uint64_t>(number)));
    number = step.number;
    out->add_begin_ns(begin_ns - end_ns);
    end_ns = std::max(begin_ns, step.end_ns);
    out->add_length_ns(static_cast<uint64_t>(end_ns - begin_ns));
    out->add_account_ns(static_cast<uint64_t>(accounts[i].length_ns()));
    out->add_top_name(steps[i].top_self_ns > 0 ? places[steps[i].top_name] : 0);
    out->add_top_self_ns(static_cast<uint64_t>(steps[i].top_self_ns));
  }
  for (size_t c = 0; c < kStepClasses; ++c) {
    if (partition.class_ns[c].empty()) continue;
    v1::DigestSteps::Column* column = out->add_classes();
    column->set_class_(static_cast<uint32_t>(c));
    for (const int64_t ns : partition.class_ns[c]) column->add_ns(static_cast<uint64_t>(ns));
  }
  for (const int64_t ns : partition.blocked_ns) out->add_blocked_ns(static_cast<uint64_t>(ns));
  for (const int64_t ns : partition.asleep_ns) out->add_asleep_ns(static_cast<uint64_t>(ns));
}

void FillIdentity(const RunWorker& worker, const WorkerTrace& trace, v1::Digest* digest) {
  digest->set_schema(kDigestSchema);
  digest->set_name(worker.name);
  digest->set_outcome(worker.outcome.name());
  digest->set_host(worker.host);
  digest->set_executable(worker.executable);
  digest->set_steps_source(worker.steps_source);
  if (worker.rank) digest->set_rank(*worker.rank);
  if (worker.pid) digest->set_pid(*worker.pid);
  digest->set_aligned(worker.aligned.value_or(false));
  if (worker.clock_uncertainty_ns) digest->set_clock_uncertainty_ns(*worker.clock_uncertainty_ns);
  if (worker.lost) digest->set_lost(*worker.lost);
  for (const auto& [cause, events] : worker.lost_by_cause) {
    (*digest->mutable_lost_by_cause())[cause] = events;
  }
  digest->set_events(trace.events);
  digest->set_gpu_model(trace.gpu_model);
  digest->set_has_clipped_step(trace.has_clipped_step);
  if (!trace.summary.has_value()) return;
  const v1::Summary& summary = *trace.summary;
  const v1::Identity& identity = summary.identity();
  if (digest->host().empty()) digest->set_host(identity.host());
  if (digest->executable().empty()) digest->set_executable(identity.executable());
  if (!digest->has_rank() && identity.has_rank()) digest->set_rank(identity.rank());
  if (!digest->has_pid() && identity.pid() != 0) digest->set_pid(identity.pid());
  if (digest->steps_source().empty()) digest->set_steps_source(summary.steps_inferred_from());
  if (!digest->has_lost()) {
    digest->set_lost(summary.lost());
    digest->clear_lost_by_cause();  // of a manifest without the sum
    for (const v1::LossByCause& loss : summary.lost_by_cause()) {
      (*digest->mutable_lost_by_cause())[loss.cause()] += loss.events();
    }
  }
  if (!worker.aligned.has_value() && summary.client_zero_unix_ns() != 0) {
    digest->set_aligned(true);
    digest->set_clock_uncertainty_ns(summary.clock_uncertainty_ns());
  }
}

}  // namespace

v1::Digest BuildDigest(const RunWorker& worker, WorkerTrace* trace) {
  v1::Digest digest;
  FillIdentity(worker, *trace, &digest);
  FillCounters(trace->counters, &digest);
  FillAllocators(trace->allocators, &digest);
  if (trace->threads_left_out > 0) {
    digest.add_warnings(absl::StrCat("more than ", WorkerTrace::kMaxThreads, " threads: ",
                                     trace->threads_left_out, " of their lines are left out"));
  }
  if (trace->of_unknown_group > 0) {
    digest.add_warnings(absl::StrCat(
        trace->of_unknown_group,
        " kernels of collectives belong to one of several process groups, and to which is not "
        "known: not matched with other workers'"));
  }
  StepThread thread = ChooseStepThread(trace);
  if (thread.line == nullptr) {
    FillOperators(trace->operators, &digest);
    FillKernels(trace->kernels, &digest);
    return digest;
  }
  digest.set_step_name(trace->operators[thread.name].name);
  if (thread.elsewhere > thread.steps.size()) {
    digest.add_warnings(absl::StrCat(thread.elsewhere,
                                     " steps of other threads are not counted: the report takes "
                                     "those of one thread; mark all steps on one"));
  }
  if (trace->summary.has_value()) {
    for (const v1::ThreadLoss& loss : trace->summary->threads()) {
      if (loss.tid() != thread.id) continue;
      digest.set_step_thread_lost(loss.lost());
      digest.set_step_thread_attempted(loss.attempted());
    }
  }
  for (const auto& [name, ns] : thread.line->step_self_ns()) {
    trace->operators[name].step_self_ns = ns;
  }
  for (const auto& [name, ns] : thread.line->input_ns()) trace->operators[name].input_ns = ns;
  std::vector<StepSpan> spans;
  spans.reserve(thread.steps.size());
  for (const StepEvent& step : thread.steps) spans.push_back(step.span);
  const std::vector<Interval> accounts = AccountsOf(spans);
  const std::vector<HostLine*> helpers = HelpersOf(thread, *trace);
  AddStepTimesOfHelpers(accounts, helpers, &trace->operators);
  const std::vector<uint32_t> places = FillOperators(trace->operators, &digest);
  SetStepTimesOfKernels(accounts, trace);
  FillKernels(trace->kernels, &digest);
  RecordedTimes times = TimesOf(thread, helpers, trace);
  const std::vector<CollectiveEvent> collectives = CollectivesOf(thread, helpers, trace);
  times.collectives.reserve(collectives.size());
  for (const CollectiveEvent& collective : collectives)
    times.collectives.push_back(collective.call);
  const Partition partition = PartitionSteps(spans, accounts, times);
  FillSteps(thread.steps, accounts, partition, places, digest.mutable_steps());
  EncodeCollectives(collectives, partition.blocked, accounts, digest.mutable_collectives());
  return digest;
}

uint64_t LostOfDevices(const v1::Digest& digest) {
  uint64_t lost = 0;
  for (const LossCause cause : {LossCause::kCuptiDropped, LossCause::kGpuNoTimestamp,
                                LossCause::kGpuPool, LossCause::kGpuUnread}) {
    const auto of_cause = digest.lost_by_cause().find(Name(cause));
    if (of_cause != digest.lost_by_cause().end()) lost += of_cause->second;
  }
  return lost;
}

v1::RunDigest RunDigestOf(const RunFiles& run) {
  v1::RunDigest digest;
  digest.set_schema(kDigestSchema);
  digest.set_run(run.run);
  digest.set_has_manifest(run.has_manifest);
  for (const RunWorker& worker : run.workers) {
    v1::RunDigest::Worker* out = digest.add_workers();
    out->set_name(worker.name);
    out->set_outcome(worker.outcome.name());
    out->set_reason(worker.reason);
    out->set_address(worker.address);
  }
  for (const std::string& warning : run.warnings) digest.add_warnings(warning);
  return digest;
}

}  // namespace jobscope::analysis
