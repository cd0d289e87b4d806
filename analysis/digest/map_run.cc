// SPDX-License-Identifier: Apache-2.0
#include "analysis/digest/map_run.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/digest/digest_builder.h"
#include "analysis/digest/digest_worker.h"
#include "analysis/trace/mapped_file.h"
#include "analysis/trace/run_files.h"
#include "common/files/whole_file.h"
#include "common/run/outcome.h"
#include "common/run/reported.h"
#include "common/text/utf8.h"
#include "common/threads/thread_group.h"

namespace jobscope::analysis {
namespace {

namespace fs = std::filesystem;

constexpr char kSuffix[] = ".digest";
constexpr char kRunFile[] = "run.digest";
// Bounds a digest file; digests take at most a few hundred KiB.
constexpr size_t kMaxDigestBytes = size_t{64} << 20;

template <typename Message>
absl::Status ReadMessage(const std::string& path, Message* message) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  if (file->bytes().empty() || file->bytes().size() > kMaxDigestBytes ||
      !message->ParseFromArray(file->bytes().data(), static_cast<int>(file->bytes().size()))) {
    return absl::InvalidArgumentError("its digest cannot be read");
  }
  return file->status();
}

// Returns what the manifest says about a worker without a trace.
std::string WhyMissing(const v1::RunDigest::Worker& worker) {
  if (worker.reason().empty()) return worker.outcome().empty() ? "no trace" : worker.outcome();
  return absl::StrCat(worker.outcome(), ": ", worker.reason());
}

// Adds workers of the run that have no digest. A duplicate is recorded under another address.
void AddMissing(Digests* digests) {
  std::set<std::string> known;
  for (const v1::Digest& digest : digests->workers) known.insert(digest.name());
  for (const Digests::Missing& missing : digests->missing) known.insert(missing.worker);
  for (const v1::RunDigest::Worker& worker : digests->run.workers()) {
    if (Reported<Outcome>(worker.outcome()) == Outcome::kDuplicate ||
        known.count(worker.name()) != 0)
      continue;
    digests->missing.push_back({worker.name(), WhyMissing(worker)});
  }
}

void Sort(Digests* digests) {
  const auto order = [](const v1::Digest& digest) {
    // Workers with ranks first, sorted by rank.
    return std::make_tuple(!digest.has_rank(), digest.rank(), digest.name());
  };
  std::sort(digests->workers.begin(), digests->workers.end(),
            [&](const v1::Digest& a, const v1::Digest& b) { return order(a) < order(b); });
  std::stable_sort(digests->missing.begin(), digests->missing.end(),
                   [](const auto& a, const auto& b) { return a.worker < b.worker; });
}

Digests MapTraces(const RunFiles& run) {
  Digests digests;
  std::vector<std::optional<absl::StatusOr<v1::Digest>>> results(run.workers.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < run.workers.size(); i = next++) {
      if (!run.workers[i].files.empty()) results[i] = DigestWorker(run.workers[i]);
    }
  };
  ThreadGroup threads;
  const size_t cpus = std::max(1U, std::thread::hardware_concurrency());
  const size_t wanted = std::min(cpus, run.workers.size());
  while (threads.size() + 1 < wanted && threads.Start(work)) {
  }
  work();
  threads.Join();
  digests.run = RunDigestOf(run);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].has_value()) continue;
    if (results[i]->ok()) {
      digests.workers.push_back(std::move(**results[i]));
      digests.workers.back().set_run(run.run);
    } else {
      const std::string reason(results[i]->status().message());
      digests.missing.push_back({run.workers[i].name, reason});
      // In place of the outcome: its digest may come from another machine (AddUnread).
      v1::RunDigest::Worker* worker = digests.run.mutable_workers(static_cast<int>(i));
      worker->set_outcome("");
      worker->set_reason("");
      worker->set_unreadable(reason);
    }
  }
  return digests;
}

// A run without a manifest reports no outcomes: its workers are its traces.
bool HasTrace(const v1::RunDigest::Worker& worker) {
  const Reported<Outcome> outcome(worker.outcome());
  return worker.outcome().empty() || outcome == Outcome::kOk || outcome == Outcome::kTruncated;
}

// Removes the digests of other runs, which an earlier --digest left in the directory. Returns
// worker -> run.
std::map<std::string, std::string> TakeOthers(Digests* digests) {
  std::map<std::string, std::string> others;
  const std::string& run = digests->run.run();
  const auto is_other = [&](const v1::Digest& digest) {
    const bool other = !run.empty() && !digest.run().empty() && digest.run() != run;
    if (other) others.emplace(digest.name(), digest.run());
    return other;
  };
  std::vector<v1::Digest>& workers = digests->workers;
  workers.erase(std::remove_if(workers.begin(), workers.end(), is_other), workers.end());
  return others;
}

// Adds workers of the run whose traces could not be read where run.digest was written, and those
// that have a digest of another run instead of one of this run.
void AddUnread(Digests* digests) {
  std::map<std::string, std::string> others = TakeOthers(digests);
  std::set<std::string> present;
  for (const v1::Digest& digest : digests->workers) present.insert(digest.name());
  for (const v1::RunDigest::Worker& worker : digests->run.workers()) {
    const auto other = others.find(worker.name());
    if (!worker.unreadable().empty() && present.count(worker.name()) == 0) {
      // This machine could not read the trace, and no other machine has digested it.
      digests->missing.push_back({worker.name(), worker.unreadable()});
    } else if (other != others.end() && HasTrace(worker)) {
      digests->missing.push_back(
          {worker.name(), absl::StrCat("its digest is of another run: ", other->second)});
    }
    if (other != others.end()) others.erase(other);
  }
  for (const auto& [worker, run] : others) {
    digests->run.add_warnings(
        absl::StrCat(worker, kSuffix, " is left out: it is of another run: ", run));
  }
}

absl::StatusOr<Digests> ReadFiles(const std::string& directory, std::vector<std::string> names) {
  Digests digests;
  std::sort(names.begin(), names.end());
  bool has_run = false;
  for (const std::string& name : names) {
    const std::string path = (fs::path(directory) / name).string();
    if (name == kRunFile) {
      has_run = ReadMessage(path, &digests.run).ok() && digests.run.schema() == kDigestSchema;
      if (!has_run) {
        digests.run.Clear();
        digests.run.add_warnings(
            "run.digest cannot be read: which workers are missing is not known");
      }
      continue;
    }
    v1::Digest digest;
    const absl::Status status = ReadMessage(path, &digest);
    const std::string stem = CleanUtf8(name, name.size() - (sizeof(kSuffix) - 1));
    if (!status.ok()) {
      digests.missing.push_back({stem, std::string(status.message())});
      continue;
    }
    // The file's name is the worker's, so two digests cannot have the same name.
    digest.set_name(stem);
    digests.workers.push_back(std::move(digest));
  }
  AddUnread(&digests);
  if (digests.workers.empty() && !has_run) {
    return absl::NotFoundError(absl::StrCat(directory, ": none of its digests can be read"));
  }
  return digests;
}

// Returns whether a worker's name can be used as a file name, with kSuffix and while it is written.
bool IsFileName(const std::string& name) {
  return !name.empty() && name.size() < 240 && name[0] != '.' &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos &&
         name != "run";
}

absl::Status WriteMessage(const google::protobuf::MessageLite& message, const fs::path& path) {
  return WriteWholeFile(path.string(), message.SerializeAsString());
}

}  // namespace

absl::StatusOr<Digests> ReadDigests(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator file(directory, error), end; !error && file != end;
       file.increment(error)) {
    if (file->path().extension() == kSuffix) names.push_back(file->path().filename().string());
  }
  absl::StatusOr<Digests> digests;
  if (!names.empty()) {
    digests = ReadFiles(directory, std::move(names));
    if (!digests.ok()) return digests.status();
  } else {
    const absl::StatusOr<RunFiles> run = FindRunFiles(directory);
    if (!run.ok()) return run.status();
    digests = MapTraces(*run);
  }
  AddMissing(&*digests);
  Sort(&*digests);
  return digests;
}

absl::Status WriteDigests(const Digests& digests, const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot create ", directory, ": ", error.message()));
  }
  absl::Status status = WriteMessage(digests.run, fs::path(directory) / kRunFile);
  for (const v1::Digest& digest : digests.workers) {
    if (!status.ok()) break;
    if (!IsFileName(digest.name())) {
      status = absl::InvalidArgumentError(
          absl::StrCat("a worker is named \"", digest.name(), "\", which cannot be a file's name"));
    } else {
      status = WriteMessage(digest, fs::path(directory) / absl::StrCat(digest.name(), kSuffix));
    }
  }
  return status;
}

}  // namespace jobscope::analysis
