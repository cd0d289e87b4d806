// SPDX-License-Identifier: Apache-2.0
#include "analysis/digest/digest_worker.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/digest/digest_builder.h"
#include "analysis/digest/digest_timeline.h"
#include "analysis/trace/timeline_reader.h"
#include "analysis/trace/trace_reader.h"
#include "common/run/outcome.h"
#include "common/text/utf8.h"

namespace jobscope::analysis {
namespace {

struct ReadFile {
  std::string path;
  std::vector<LineStretch> stretches;
};

// Errors contain paths, which may consist of any bytes.
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

// The contents of a worker's files, the files that could be read, and the failures of the others.
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
      // The reader may hold events that the file does not contain: discards all and reads the other
      // files again from the start.
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

}  // namespace jobscope::analysis
