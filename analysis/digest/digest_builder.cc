// SPDX-License-Identifier: Apache-2.0
#include "analysis/digest/digest_builder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/digest/digest_collectives.h"
#include "analysis/digest/digest_timeline.h"
#include "analysis/steps/intervals.h"
#include "analysis/steps/partition.h"
#include "analysis/trace/mapped_file.h"
#include "analysis/trace/timeline_reader.h"
#include "common/run/outcome.h"
#include "common/text/utf8.h"

namespace jobscope::analysis {
namespace {

// Maximum number of distinct names in a digest; further ones take less than a thousandth of the
// time.
constexpr size_t kMaxOperators = 400;
constexpr size_t kMaxKernels = 300;

// The thread whose steps count as the worker's, and these steps: those with the name that takes
// most time.
struct StepThread {
  int64_t id = 0;
  HostLine* line = nullptr;
  uint32_t name = 0;
  std::vector<StepEvent> steps;  // sorted, disjoint
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
  for (const StepEvent& step : chosen.line->steps()) {
    if (step.name == chosen.name) chosen.steps.push_back(step);
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

// Adds to the names the helpers' part of steps. It is estimated: of each name the part of the
// threads' time that lies in `accounts`; where several work at once, time counts once.
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

// Estimates each kernel's part of the time of its class in `accounts`: a capture has kernels before
// its first and after its last whole step, and of kernels that run at the same time, on several
// streams or devices, the class has the time only once.
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

// Fills `names` with the largest ones. Returns for each index of the table its new index plus 1, or
// 0.
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
      if (left_out != nullptr) ++*left_out;
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
  if (!trace.summary.has_value()) return;
  const v1::Summary& summary = *trace.summary;
  const v1::Identity& identity = summary.identity();
  if (digest->host().empty()) digest->set_host(identity.host());
  if (digest->executable().empty()) digest->set_executable(identity.executable());
  if (!digest->has_rank() && identity.has_rank()) digest->set_rank(identity.rank());
  if (!digest->has_pid() && identity.pid() != 0) digest->set_pid(identity.pid());
  if (digest->steps_source().empty()) digest->set_steps_source(summary.steps_inferred_from());
  if (!digest->has_lost()) digest->set_lost(summary.lost());
  if (!worker.aligned.has_value() && summary.client_zero_unix_ns() != 0) {
    digest->set_aligned(true);
    digest->set_clock_uncertainty_ns(summary.clock_uncertainty_ns());
  }
}

void FillCounters(const CounterSamples& counters, v1::Digest* digest) {
  for (const auto& [name, counter] : counters.all()) {
    v1::DigestCounter* out = digest->add_counters();
    out->set_name(name);
    out->set_count(counter.count());
    out->set_minimum(counter.minimum());
    out->set_maximum(counter.maximum());
    out->set_mean(counter.mean());
    out->set_last(counter.last());
    int64_t before_ns = 0;
    for (const auto& [time_ns, value] : counter.samples()) {
      out->add_time_ns(time_ns - before_ns);
      before_ns = time_ns;
      out->add_value(value);
    }
  }
}

void FillAllocators(const AllocatorSamples& allocators, v1::Digest* digest) {
  const auto count = [](int64_t bytes) { return static_cast<uint64_t>(bytes); };
  for (const auto& [name, allocator] : allocators.all()) {
    v1::DigestAllocator* out = digest->add_allocators();
    out->set_name(name);
    out->set_allocations(allocator.allocations());
    out->set_deallocations(allocator.deallocations());
    out->set_in_use(count(allocator.in_use()));
    out->set_peak(count(allocator.peak()));
    if (allocator.process_peak()) out->set_process_peak(count(*allocator.process_peak()));
    if (allocator.reserved()) out->set_reserved(count(*allocator.reserved()));
    if (allocator.limit()) out->set_limit(count(*allocator.limit()));
    if (allocator.fragmentation()) out->set_fragmentation(*allocator.fragmentation());
    out->set_largest(count(allocator.largest()));
    out->set_largest_operation(allocator.largest_operation());
    int64_t before_ns = 0;
    for (const auto& [time_ns, in_use] : allocator.Points()) {
      out->add_time_ns(time_ns - before_ns);
      before_ns = time_ns;
      out->add_point(count(in_use));
    }
  }
}

struct ReadFile {
  std::string path;
  std::vector<LineStretch> stretches;
};

// Paths, which errors contain, are any bytes.
std::string Utf8(const std::string& text) {
  std::string scratch;
  return std::string(ToUtf8(text, &scratch));
}

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// A second pass over the files: which steps are worth a picture is known after the first one.
void AddTimeline(const std::vector<ReadFile>& files, int64_t base_ns, const OpenFile& open,
                 v1::Digest* digest) {
  const std::vector<size_t> steps = TimelineSteps(digest->steps());
  if (steps.empty()) return;
  TimelineReader reader(TimelineWindows(digest->steps(), steps), base_ns);
  for (const auto& [path, stretches] : files) {
    const absl::StatusOr<MappedFile> file = open(path);
    const absl::Status status = file.ok() ? reader.Read(*file, stretches) : file.status();
    if (status.ok()) continue;
    // The first pass has read it to its end.
    digest->add_warnings(Utf8(absl::StrCat(
        "no timeline, because a part of its trace cannot be read again: ", NameOf(path), ": ",
        status.message())));
    return;
  }
  EncodeTimeline(steps, &reader, digest->mutable_timeline());
}

// What the files of a worker contain.
struct FilesRead {
  TraceReader reader;
  std::vector<ReadFile> readable;
  std::vector<std::string> failures;
};

FilesRead ReadFiles(const std::vector<std::string>& paths, const OpenFile& open) {
  FilesRead read;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string& path = paths[i];
    const absl::StatusOr<MappedFile> file = open(path);
    const absl::Status status = file.ok() ? read.reader.Read(*file) : file.status();
    if (status.ok() && !file->bytes().empty()) {
      read.readable.push_back({path, read.reader.TakeStretches()});
      continue;
    }
    std::string failure = Utf8(status.ok() ? absl::StrCat(NameOf(path), " is empty")
                                           : absl::StrCat(NameOf(path), ": ", status.message()));
    if (absl::IsDataLoss(status)) {
      // What the reader has seen is not what the file contains: the others, from the begin.
      std::vector<std::string> others = paths;
      others.erase(others.begin() + static_cast<ptrdiff_t>(i));
      read = ReadFiles(others, open);
      read.failures.push_back(std::move(failure));
      return read;
    }
    read.failures.push_back(std::move(failure));
  }
  return read;
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
  uint64_t left_out = 0;
  if (thread.line == nullptr) {
    FillNames(trace->operators, kMaxOperators, &left_out, digest.mutable_operators());
    FillNames(trace->kernels, kMaxKernels, nullptr, digest.mutable_kernels());
    digest.set_operators_left_out(left_out);
    return digest;
  }
  digest.set_step_name(trace->operators[thread.name].name);
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
  const std::vector<uint32_t> places =
      FillNames(trace->operators, kMaxOperators, &left_out, digest.mutable_operators());
  digest.set_operators_left_out(left_out + trace->operators.left_out());

  SetStepTimesOfKernels(accounts, trace);
  FillNames(trace->kernels, kMaxKernels, nullptr, digest.mutable_kernels());
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

absl::StatusOr<v1::Digest> DigestWorker(const RunWorker& worker, const OpenFile& open) {
  auto [reader, readable, failures] = ReadFiles(worker.files, open);
  if (readable.empty()) {
    return absl::InvalidArgumentError(failures.empty() ? "it has no trace"
                                                       : absl::StrJoin(failures, "; "));
  }
  const int64_t base_ns = reader.base_ns();
  std::unique_ptr<WorkerTrace> trace = reader.Finish();
  v1::Digest digest = BuildDigest(worker, trace.get());
  trace.reset();  // the second pass needs memory of its own
  AddTimeline(readable, base_ns, open, &digest);
  if (!worker.outcome.name().empty() && worker.outcome != Outcome::kOk &&
      worker.outcome != Outcome::kEmpty) {
    digest.add_warnings(absl::StrCat(
        worker.outcome.name(), worker.reason.empty() ? "" : absl::StrCat(" (", worker.reason, ")"),
        ": its trace ends before the capture did"));
  }
  for (std::string& failure : failures) {
    digest.add_warnings(absl::StrCat("a part of its trace is left out: ", failure));
  }
  return digest;
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
