// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/run_files.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/trace/mapped_file.h"
#include "common/text/utf8.h"

namespace jobscope::analysis {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kSuffix = ".xplane.pb";
constexpr int64_t kSchema = 1;
constexpr int kMaxParts = 9999;  // as common/run/run_directory.h limits them

bool IsTraceName(const std::string& name) {
  return name.size() > kSuffix.size() &&
         name.compare(name.size() - kSuffix.size(), kSuffix.size(), kSuffix) == 0;
}

// Names of files are any bytes, and those of runs and workers are UTF-8.
std::string Utf8Of(const fs::path& name) {
  std::string scratch;
  return std::string(ToUtf8(name.string(), &scratch));
}

std::string StemOf(const std::string& name) { return name.substr(0, name.size() - kSuffix.size()); }

// Returns a field of a foreign object; nothing if it is absent or of another type.
std::string TextOf(const json& object, const char* field) {
  const auto value = object.find(field);
  return value != object.end() && value->is_string() ? value->get<std::string>() : std::string();
}

std::optional<int64_t> NumberOf(const json& object, const char* field) {
  const auto value = object.find(field);
  if (value == object.end() || !value->is_number_integer()) return std::nullopt;
  return value->get<int64_t>();
}

std::optional<uint64_t> CountOf(const json& object, const char* field) {
  const auto value = object.find(field);
  if (value == object.end() || !value->is_number_unsigned()) return std::nullopt;
  return value->get<uint64_t>();
}

// Returns the path of a file in the manifest: beside the manifest, or in a part's directory next to
// its directory. Rejects paths that `capture` never writes.
std::optional<std::string> PathOf(const std::string& directory, const std::string& path) {
  const fs::path relative(path);
  const std::string name = relative.filename().string();
  if (!IsTraceName(name)) return std::nullopt;
  const fs::path folder = relative.parent_path();
  if (folder.empty()) return (fs::path(directory) / name).string();
  const std::string part = folder.filename().string();
  if (folder.parent_path() != ".." || part.find(".part") == std::string::npos) return std::nullopt;
  return (fs::path(directory) / ".." / part / name).string();
}

RunWorker WorkerOf(const json& object, const std::string& directory) {
  RunWorker worker;
  worker.name = TextOf(object, "name");
  worker.address = TextOf(object, "address");
  if (worker.name.empty()) worker.name = worker.address;
  worker.outcome = Reported<Outcome>(TextOf(object, "outcome"));
  worker.reason = TextOf(object, "reason");
  worker.host = TextOf(object, "host");
  worker.executable = TextOf(object, "executable");
  worker.steps_source = TextOf(object, "steps_source");
  worker.rank = NumberOf(object, "rank");
  worker.pid = NumberOf(object, "pid");
  worker.clock_uncertainty_ns = CountOf(object, "clock_uncertainty_ns");
  worker.lost = CountOf(object, "lost");
  const auto aligned = object.find("aligned");
  if (aligned != object.end() && aligned->is_boolean()) worker.aligned = aligned->get<bool>();
  const auto causes = object.find("lost_by_cause");
  if (causes != object.end() && causes->is_object()) {
    for (const auto& [cause, events] : causes->items()) {
      if (events.is_number_unsigned()) worker.lost_by_cause[cause] = events.get<uint64_t>();
    }
  }
  const auto files = object.find("files");
  if (files == object.end() || !files->is_array()) return worker;
  for (const json& file : *files) {
    if (!file.is_object()) continue;
    if (std::optional<std::string> path = PathOf(directory, TextOf(file, "path"))) {
      worker.files.push_back(std::move(*path));
    }
  }
  return worker;
}

// Returns the run of which `run`, "r.part2", is a further part; empty: of none.
std::string WholeRunOf(const std::string& run) {
  const size_t digits = run.find_last_not_of("0123456789") + 1;
  const std::string_view name = std::string_view(run).substr(0, digits);
  constexpr std::string_view kPart = ".part";
  const bool is_part = digits < run.size() && name.size() > kPart.size() &&
                       name.substr(name.size() - kPart.size()) == kPart;
  return is_part ? run.substr(0, digits - kPart.size()) : std::string();
}

void ReadManifest(const std::string& directory, RunFiles* run) {
  const std::string path = (fs::path(directory) / "capture.json").string();
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    const std::string whole = WholeRunOf(run->run);
    run->warnings.push_back(
        whole.empty()
            ? "no capture.json: the run is unfinished, or another tool's; outcomes are not known, "
              "losses and clocks only if the traces state them"
            : absl::StrCat("this is only a part of the run ", whole, "; name its directory"));
    return;
  }
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  json manifest;
  if (file.ok()) manifest = json::parse(file->bytes(), nullptr, /*allow_exceptions=*/false);
  if (file.ok() && !file->status().ok()) manifest = nullptr;
  const auto workers = manifest.is_object() ? manifest.find("workers") : manifest.end();
  if (!manifest.is_object() || workers == manifest.end() || !workers->is_array()) {
    run->warnings.push_back(
        "capture.json cannot be read: outcomes are not known, losses and clocks only if the traces "
        "state them");
    return;
  }
  run->has_manifest = true;
  if (const std::optional<int64_t> schema = NumberOf(manifest, "schema"); schema > kSchema) {
    run->warnings.push_back(absl::StrCat("capture.json has schema ", *schema,
                                         ", newer than this program, which knows ", kSchema,
                                         ": what it says may be misread; use a newer jobscope"));
  }
  const std::string name = TextOf(manifest, "run");
  if (!name.empty()) run->run = name;
  if (const uint64_t lookback_ns = CountOf(manifest, "lookback_ns").value_or(0); lookback_ns > 0) {
    run->warnings.push_back(absl::StrFormat(
        "up to %.1f s of this run are from before its start (--lookback_ms): there, usually only "
        "steps, input waits and coarse scopes are recorded, and the rest of these steps is "
        "unexplained; capture without it for a verdict on all classes",
        static_cast<double>(lookback_ns) / 1e9));
  }
  for (const json& worker : *workers) {
    if (worker.is_object()) run->workers.push_back(WorkerOf(worker, directory));
  }
}

// Finds the files of a worker in a run without a manifest: its further parts are in directories
// beside the run's.
std::vector<std::string> PartsOf(const fs::path& directory, const std::string& name) {
  std::vector<std::string> files = {(directory / name).string()};
  const fs::path run = fs::absolute(directory).lexically_normal();
  const fs::path plain = run.has_filename() ? run : run.parent_path();
  for (int part = 2; part <= kMaxParts; ++part) {
    std::error_code ignored;
    const fs::path next =
        plain.parent_path() / absl::StrCat(plain.filename().string(), ".part", part) / name;
    if (!fs::exists(next, ignored)) break;
    files.push_back(next.string());
  }
  return files;
}

absl::Status CannotRead(const std::string& directory, const std::error_code& error) {
  const char* const remedy =
      error == std::errc::permission_denied
          ? "; ask its owner: a run is private unless capture has --file_mode=0640 or 0644"
          : "; name a run directory, LOGDIR/plugins/profile/RUN";
  return absl::NotFoundError(absl::StrCat(directory, ": ", error.message(), remedy));
}

}  // namespace

absl::StatusOr<RunFiles> FindRunFiles(const std::string& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return CannotRead(directory, error ? error : std::make_error_code(std::errc::not_a_directory));
  }
  RunFiles run;
  const fs::path plain = fs::absolute(directory).lexically_normal();
  run.run = Utf8Of((plain.has_filename() ? plain : plain.parent_path()).filename());
  ReadManifest(directory, &run);

  std::set<std::string> known;
  for (const RunWorker& worker : run.workers) {
    for (const std::string& file : worker.files) known.insert(fs::path(file).filename().string());
  }
  std::vector<std::string> others;
  for (fs::directory_iterator file(directory, error), end; !error && file != end;
       file.increment(error)) {
    const std::string name = file->path().filename().string();
    if (IsTraceName(name) && known.count(name) == 0) others.push_back(name);
  }
  std::sort(others.begin(), others.end());
  std::set<std::string> names;
  for (const std::string& name : others) {
    RunWorker worker;
    worker.name = Utf8Of(StemOf(name));
    while (!names.insert(worker.name).second) worker.name += '_';
    worker.files = PartsOf(directory, name);
    if (run.has_manifest) {
      run.warnings.push_back(
          absl::StrCat(Utf8Of(name), " is not in capture.json: taken as a worker"));
    }
    run.workers.push_back(std::move(worker));
  }
  if (run.workers.empty() && error) return CannotRead(directory, error);
  if (run.workers.empty()) {
    const bool is_logdir = fs::is_directory(fs::path(directory) / "plugins" / "profile", error);
    return absl::NotFoundError(
        absl::StrCat(directory, ": no *.xplane.pb and no capture.json here; ",
                     is_logdir ? "this is a logdir: name one of the runs in its plugins/profile/"
                               : "name a run directory, LOGDIR/plugins/profile/RUN"));
  }
  return run;
}

}  // namespace jobscope::analysis
