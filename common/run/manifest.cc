// SPDX-License-Identifier: Apache-2.0
#include "common/run/manifest.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

// Keeps the order in which keys are set, because people read these files.
using Json = nlohmann::ordered_json;

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

template <typename Value>
void Set(Json* json, const char* key, const std::optional<Value>& value) {
  if (value.has_value()) (*json)[key] = *value;
}

void Set(Json* json, const char* key, const std::string& value) {
  if (!value.empty()) (*json)[key] = value;
}

template <typename Enum>
void SetName(Json* json, const char* key, const std::optional<Enum>& value) {
  if (value.has_value()) (*json)[key] = Name(*value);
}

template <typename Container>
void SetUnlessEmpty(Json* json, const char* key, const Container& value) {
  if (!value.empty()) (*json)[key] = value;
}

Json CollectorJson(const ManifestCollector& collector) {
  Json json = {{"name", collector.name}, {"state", collector.state.name()}};
  Set(&json, "reason", collector.reason);
  Set(&json, "events", collector.events);
  Set(&json, "lost", collector.lost);
  if (collector.absent) json["absent"] = true;
  return json;
}

Json BusyJson(const ManifestBusy& busy) {
  Json json = Json::object();
  Set(&json, "session_id", busy.session_id);
  Set(&json, "peer", busy.peer);
  Set(&json, "state", busy.state.name());
  Set(&json, "remaining_ms", busy.remaining_ms);
  Set(&json, "waiting", busy.waiting);
  return json;
}

Json GpuJson(const ManifestGpu& gpu) {
  Json json = Json::object();
  Set(&json, "index", gpu.index);
  Set(&json, "cuda_ordinal", gpu.cuda_ordinal);
  Set(&json, "name", gpu.name);
  Set(&json, "uuid", gpu.uuid);
  Set(&json, "pci_bus_id", gpu.pci_bus_id);
  Set(&json, "compute_capability", gpu.compute_capability);
  Set(&json, "memory_total_bytes", gpu.memory_total_bytes);
  Set(&json, "memory_used_bytes", gpu.memory_used_bytes);
  Set(&json, "utilization_percent", gpu.utilization_percent);
  Set(&json, "power_watts", gpu.power_watts);
  Set(&json, "temperature_celsius", gpu.temperature_celsius);
  Set(&json, "failure", gpu.failure);
  return json;
}

Json WorkerJson(const ManifestWorker& worker) {
  Json json = {{"address", worker.address},
               {"name", worker.name},
               {"outcome", Name(worker.outcome)},
               {"phase", Name(worker.phase)}};
  Set(&json, "reason", worker.reason);
  Set(&json, "same_as", worker.same_as);
  Set(&json, "grpc_code", worker.grpc_code);
  Set(&json, "attempts", worker.attempts);
  SetName(&json, "protocol", worker.protocol);
  Set(&json, "aligned", worker.aligned);
  Json files = Json::array();
  for (const ManifestFile& file : worker.files) {
    Json entry = {{"path", file.path}, {"bytes", file.bytes}};
    Set(&entry, "events", file.events);
    files.push_back(std::move(entry));
  }
  json["files"] = std::move(files);
  Set(&json, "events", worker.events);
  Set(&json, "lost", worker.lost);
  SetUnlessEmpty(&json, "lost_by_cause", worker.lost_by_cause);
  Set(&json, "steps", worker.steps);
  Set(&json, "first_step", worker.first_step);
  Set(&json, "last_step", worker.last_step);
  Set(&json, "steps_by_ordinal", worker.steps_by_ordinal);
  Set(&json, "steps_inferred", worker.steps_inferred);
  Set(&json, "steps_source", worker.steps_source);
  Set(&json, "start_unix_ns", worker.start_unix_ns);
  Set(&json, "duration_ns", worker.duration_ns);
  Set(&json, "lookback_ns", worker.lookback_ns);
  Set(&json, "clock_offset_ns", worker.clock_offset_ns);
  Set(&json, "clock_uncertainty_ns", worker.clock_uncertainty_ns);
  Set(&json, "late_ns", worker.late_ns);
  Set(&json, "ended_by", worker.ended_by.name());
  Set(&json, "version", worker.version);
  Set(&json, "host", worker.host);
  Set(&json, "pid", worker.pid);
  Set(&json, "rank", worker.rank);
  Set(&json, "local_rank", worker.local_rank);
  Set(&json, "world_size", worker.world_size);
  Set(&json, "job", worker.job);
  Set(&json, "executable", worker.executable);
  if (worker.busy.has_value()) json["busy"] = BusyJson(*worker.busy);
  Set(&json, "step_time_ms", worker.step_time_ms);
  Set(&json, "current_step", worker.current_step);
  Set(&json, "max_duration_ms", worker.max_duration_ms);
  Set(&json, "store_bytes", worker.store_bytes);
  if (!worker.gpus.empty()) {
    Json gpus = Json::array();
    for (const ManifestGpu& gpu : worker.gpus) gpus.push_back(GpuJson(gpu));
    json["gpus"] = std::move(gpus);
  }
  Set(&json, "gpu_driver", worker.gpu_driver);
  Set(&json, "gpus_chosen_by", worker.gpus_chosen_by);
  Set(&json, "gpu_reason", worker.gpu_reason);
  Set(&json, "gpus_age_ms", worker.gpus_age_ms);
  if (!worker.collectors.empty()) {
    Json collectors = Json::array();
    for (const ManifestCollector& collector : worker.collectors) {
      collectors.push_back(CollectorJson(collector));
    }
    json["collectors"] = std::move(collectors);
  }
  SetUnlessEmpty(&json, "warnings", worker.warnings);
  SetUnlessEmpty(&json, "errors", worker.errors);
  return json;
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

namespace {

void FillGpus(const v1::Gpus& gpus, ManifestWorker* worker) {
  worker->gpus.clear();
  for (const v1::Gpu& told : Bounded(gpus.gpus())) {
    ManifestGpu gpu;
    if (told.has_index()) gpu.index = told.index();
    if (told.has_cuda_ordinal()) gpu.cuda_ordinal = told.cuda_ordinal();
    gpu.name = Text(told.name());
    gpu.uuid = Text(told.uuid());
    gpu.pci_bus_id = Text(told.pci_bus_id());
    if (told.compute_major() > 0) {
      gpu.compute_capability =
          std::to_string(told.compute_major()) + "." + std::to_string(told.compute_minor());
    }
    if (told.memory_total_bytes() > 0) {
      gpu.memory_total_bytes = told.memory_total_bytes();
      gpu.memory_used_bytes = told.memory_used_bytes();
    }
    if (told.has_utilization()) gpu.utilization_percent = told.utilization_percent();
    if (told.power_milliwatts() > 0) gpu.power_watts = told.power_milliwatts() / 1e3;
    if (told.temperature_celsius() > 0) gpu.temperature_celsius = told.temperature_celsius();
    gpu.failure = Text(told.failure());
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

std::string ManifestJson(const Manifest& manifest) {
  Json json = {{"schema", kManifestSchema}, {"verb", manifest.verb}};
  Set(&json, "run", manifest.run);
  Set(&json, "run_directory", manifest.run_directory);
  Set(&json, "client_version", manifest.client_version);
  Json options = Json::object();
  for (const auto& [name, value] : manifest.options_text) options[name] = value;
  for (const auto& [name, value] : manifest.options_numbers) options[name] = value;
  json["options"] = std::move(options);
  Set(&json, "started_unix_ns", manifest.started_unix_ns);
  Set(&json, "duration_ms", manifest.duration_ms);
  Set(&json, "start_spread_ns", manifest.start_spread_ns);
  Set(&json, "clock_uncertainty_ns", manifest.clock_uncertainty_ns);
  Set(&json, "lookback_ns", manifest.lookback_ns);
  Set(&json, "first_step", manifest.first_step);
  Set(&json, "last_step", manifest.last_step);
  SetName(&json, "steps_by", manifest.steps_by);
  Set(&json, "events", manifest.events);
  Set(&json, "lost", manifest.lost);
  Set(&json, "exit_code", manifest.exit_code);
  Json workers = Json::array();
  for (const ManifestWorker& worker : manifest.workers) workers.push_back(WorkerJson(worker));
  json["workers"] = std::move(workers);
  SetUnlessEmpty(&json, "not_sampled", manifest.not_sampled);
  // Texts come from workers: invalid UTF-8 must not end the program with an exception.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace jobscope
