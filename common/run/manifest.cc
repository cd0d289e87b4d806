// SPDX-License-Identifier: Apache-2.0
#include "common/run/manifest.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

// Bounds each text from a worker: unbounded, a thousand workers could make a manifest that nobody
// can open. jobscope's workers stay far below.
constexpr size_t kMaxTextBytes = 4096;
constexpr size_t kMaxTexts = 200;  // warnings, errors
constexpr int kMaxEntries = 1000;  // collectors, causes, GPUs

std::string Text(const std::string& foreign) { return CutText(foreign, kMaxTextBytes); }

// Returns the first elements of a repeated field from a worker.
template <typename Repeated>
auto Bounded(const Repeated& entries) {
  struct Range {
    typename Repeated::const_iterator first, last;
    auto begin() const { return first; }
    auto end() const { return last; }
  };
  return Range{entries.begin(), entries.begin() + std::min(entries.size(), kMaxEntries)};
}

void FillFromIdentity(const v1::Identity& identity, ManifestWorker* worker) {
  worker->host = Text(identity.host());
  if (identity.pid() > 0) worker->pid = identity.pid();
  if (identity.has_rank()) worker->rank = identity.rank();
  if (identity.has_local_rank()) worker->local_rank = identity.local_rank();
  if (identity.has_world_size()) worker->world_size = identity.world_size();
  worker->job = Text(identity.job());
  worker->executable = Text(identity.executable());
}

void FillStepsSource(const std::string& inferred_from, ManifestWorker* worker) {
  worker->steps_inferred.reset();
  worker->steps_source = Text(inferred_from);
  if (!inferred_from.empty()) worker->steps_inferred = true;
}

// Returns name, state and reason.
ManifestCollector CollectorOf(const v1::CollectorState& state) {
  ManifestCollector collector;
  collector.name = Text(state.name());
  collector.state = Reported<CollectorState>(Text(state.state()));
  collector.reason = Text(state.reason());
  return collector;
}

void FillGpus(const v1::Gpus& gpus, ManifestWorker* worker) {
  worker->gpus.clear();
  for (const v1::Gpu& message : Bounded(gpus.gpus())) {
    ManifestGpu gpu;
    if (message.has_index()) gpu.index = message.index();
    if (message.has_cuda_ordinal()) gpu.cuda_ordinal = message.cuda_ordinal();
    gpu.name = Text(message.name());
    gpu.uuid = Text(message.uuid());
    gpu.pci_bus_id = Text(message.pci_bus_id());
    if (message.compute_major() > 0) {
      gpu.compute_capability =
          std::to_string(message.compute_major()) + "." + std::to_string(message.compute_minor());
    }
    if (message.memory_total_bytes() > 0) {
      gpu.memory_total_bytes = message.memory_total_bytes();
      gpu.memory_used_bytes = message.memory_used_bytes();
    }
    if (message.has_utilization()) gpu.utilization_percent = message.utilization_percent();
    if (message.power_milliwatts() > 0) gpu.power_watts = message.power_milliwatts() / 1e3;
    if (message.temperature_celsius() > 0) gpu.temperature_celsius = message.temperature_celsius();
    gpu.failure = Text(message.failure());
    worker->gpus.push_back(std::move(gpu));
  }
  worker->gpu_driver = Text(gpus.driver_version());
  if (!worker->gpus.empty()) {
    worker->gpus_chosen_by = Text(gpus.chosen_by());
    worker->gpus_age_ms = gpus.age_ms();
  }
  worker->gpu_reason = Text(gpus.reason());
}

}  // namespace

const char* Name(StepsBy by) {
  switch (by) {
    case StepsBy::kNumber:
      return "number";
    case StepsBy::kOrdinal:
      return "ordinal";
    case StepsBy::kMixed:
      return "mixed";
  }
  return "";
}

bool AccountUnknown(const v1::Summary& summary) {
  return std::any_of(summary.collectors().begin(), summary.collectors().end(),
                     [](const v1::CollectorState& state) { return state.account_unknown(); });
}

void AddText(const std::string& foreign, std::vector<std::string>* texts) {
  if (texts->size() > kMaxTexts) return;
  texts->push_back(texts->size() == kMaxTexts ? "more of them were left out" : Text(foreign));
}

void FillFromSummary(const v1::Summary& summary, ManifestWorker* worker) {
  FillFromIdentity(summary.identity(), worker);
  worker->version = Text(summary.version());
  worker->events = summary.events();
  worker->lost.reset();
  if (!AccountUnknown(summary)) worker->lost = summary.lost();
  worker->lost_by_cause.clear();
  for (const v1::LossByCause& loss : Bounded(summary.lost_by_cause())) {
    worker->lost_by_cause[Text(loss.cause())] += loss.events();
  }
  if (summary.has_steps()) worker->steps = summary.steps();
  if (summary.zero_unix_ns() != 0) worker->start_unix_ns = summary.zero_unix_ns();
  worker->duration_ns = summary.duration_ns();
  if (summary.lookback_ns() > 0) worker->lookback_ns = summary.lookback_ns();
  if (summary.has_step_window()) {
    worker->first_step = summary.first_step();
    worker->last_step = summary.last_step();
    if (summary.steps_by_ordinal()) worker->steps_by_ordinal = true;
  }
  FillStepsSource(summary.steps_inferred_from(), worker);
  worker->late_ns = summary.late_ns();
  worker->ended_by = Reported<EndedBy>(Text(summary.ended_by()));
  worker->collectors.clear();
  for (const v1::CollectorState& state : Bounded(summary.collectors())) {
    worker->collectors.push_back(CollectorOf(state));
    if (state.account_unknown()) continue;
    worker->collectors.back().events = state.events();
    worker->collectors.back().lost = state.lost();
  }
  for (const std::string& warning : summary.warnings()) AddText(warning, &worker->warnings);
  for (const std::string& option : summary.options().ignored()) {
    AddText("the worker does not know the option " + option + " and ignored it", &worker->warnings);
  }
  for (const std::string& error : summary.errors()) AddText(error, &worker->errors);
}

void FillCollectors(const google::protobuf::RepeatedPtrField<v1::CollectorState>& states,
                    ManifestWorker* worker) {
  worker->collectors.clear();
  for (const v1::CollectorState& state : Bounded(states)) {
    worker->collectors.push_back(CollectorOf(state));
    worker->collectors.back().absent = state.absent();
  }
}

void FillFromDescription(const v1::DescribeResponse& description, ManifestWorker* worker) {
  FillFromIdentity(description.identity(), worker);
  worker->version = Text(description.version());
  FillCollectors(description.collectors(), worker);
  if (description.has_gpus()) FillGpus(description.gpus(), worker);
  if (description.has_busy()) {
    const v1::Busy& busy = description.busy();
    worker->busy = {Text(busy.session_id()),
                    Text(busy.peer()),
                    Reported<SessionPhase>(Text(busy.state())),
                    {},
                    {}};
    if (busy.remaining_ms() > 0) worker->busy->remaining_ms = busy.remaining_ms();
    if (busy.waiting() > 0) worker->busy->waiting = busy.waiting();
  }
  // JSON knows no infinity.
  if (description.step_time_ms() > 0 && std::isfinite(description.step_time_ms())) {
    worker->step_time_ms = description.step_time_ms();
  }
  FillStepsSource(description.steps_inferred_from(), worker);
  if (description.has_current_step()) worker->current_step = description.current_step();
  if (description.limits().max_duration_ms() > 0) {
    worker->max_duration_ms = description.limits().max_duration_ms();
  }
  if (description.limits().store_bytes() > 0) {
    worker->store_bytes = description.limits().store_bytes();
  }
}

void FillTotals(Manifest* manifest) {
  manifest->events.reset();
  manifest->lost.reset();
  std::optional<int64_t> first;
  std::optional<int64_t> last;
  int starts = 0;
  for (const ManifestWorker& worker : manifest->workers) {
    if (worker.events) manifest->events = manifest->events.value_or(0) + *worker.events;
    if (worker.lost) manifest->lost = manifest->lost.value_or(0) + *worker.lost;
    if (worker.start_unix_ns) {
      // The zero is the commanded start minus the lookback; a late worker began after it.
      const auto began =
          static_cast<int64_t>(static_cast<uint64_t>(*worker.start_unix_ns) +
                               worker.lookback_ns.value_or(0) + worker.late_ns.value_or(0));
      ++starts;
      first = std::min(first.value_or(began), began);
      last = std::max(last.value_or(began), began);
    }
  }
  if (starts > 1 && !manifest->start_spread_ns.has_value()) {
    // Computed unsigned: clocks may differ arbitrarily, and the difference of two int64_t may
    // overflow.
    manifest->start_spread_ns = static_cast<uint64_t>(*last) - static_cast<uint64_t>(*first);
  }
}

}  // namespace jobscope
