// SPDX-License-Identifier: Apache-2.0
#include "common/run/manifest_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

// Keeps the order in which keys are set, because people read these files.
using Json = nlohmann::ordered_json;

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

}  // namespace

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
  return EscapeControls(json.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace jobscope
