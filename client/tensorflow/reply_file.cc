// SPDX-License-Identifier: Apache-2.0
#include "client/tensorflow/reply_file.h"

#include <fcntl.h>
#include <grpcpp/support/slice.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/run/judge_trace.h"
#include "client/tensorflow/reply_index.h"
#include "common/files/file_sink.h"
#include "common/files/regular_file.h"
#include "common/xspace/assemble/scan.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope {
namespace {

// Threshold above which freed memory of an answer is returned to the system before the written file
// is mapped: otherwise the two add up.
constexpr uint64_t kTrimBytes = 8 << 20;

WorkerOutcome Failed(Phase phase, std::string reason) {
  return {Outcome::kFailed, phase, std::move(reason), std::nullopt};
}

// Writes the ranges of the reply, and releases the slices already written.
absl::Status CopyRanges(std::vector<grpc::Slice>* slices, const std::vector<ReplyRange>& ranges,
                        FileSink* file) {
  constexpr size_t kSlicesPerFlush = 128;
  uint64_t slice_begin = 0;
  auto range = ranges.begin();
  size_t kept = 0;
  for (size_t i = 0; i < slices->size(); ++i) {
    const grpc::Slice& slice = (*slices)[i];
    const uint64_t slice_end = slice_begin + slice.size();
    while (range != ranges.end() && range->begin < slice_end) {
      const uint64_t begin = std::max(range->begin, slice_begin);
      const uint64_t end = std::min(range->begin + range->size, slice_end);
      if (begin < end) {
        const auto* bytes = reinterpret_cast<const char*>(slice.begin()) + (begin - slice_begin);
        const absl::Status status = file->Write(std::string_view(bytes, end - begin), true);
        if (!status.ok()) return status;
      }
      if (range->begin + range->size > slice_end) break;
      ++range;
    }
    slice_begin = slice_end;
    if (i + 1 - kept == kSlicesPerFlush || i + 1 == slices->size()) {
      const absl::Status status = file->Flush();
      if (!status.ok()) return status;
      for (; kept <= i; ++kept) (*slices)[kept] = grpc::Slice();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<xspace::XSpaceScan> ScanFile(const std::string& path) {
  const absl::StatusOr<RegularFile> file = RegularFile::Open(path);
  if (!file.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot open ", path, ": ", file.status().message()));
  }
  const auto size = static_cast<size_t>(file->info().st_size);
  if (size == 0) return xspace::ScanXSpace({});
  void* const bytes = mmap(nullptr, size, PROT_READ, MAP_SHARED, file->fd(), 0);
  if (bytes == MAP_FAILED) {
    return absl::UnavailableError(absl::StrCat("cannot map ", path, ": ", std::strerror(errno)));
  }
  const absl::Cleanup unmap = [bytes, size] { munmap(bytes, size); };
  madvise(bytes, size, MADV_SEQUENTIAL);
  return xspace::ScanXSpace(std::string_view(static_cast<const char*>(bytes), size));
}

WorkerOutcome JudgeForeignTrace(const xspace::XSpaceScan& scan, const ReplyContext& context,
                                ManifestWorker* account) {
  account->aligned = false;
  account->events = scan.events;
  if (scan.profile_start_time_ns.has_value()) {
    account->start_unix_ns = static_cast<int64_t>(*scan.profile_start_time_ns);
    if (scan.profile_stop_time_ns.has_value() &&
        *scan.profile_stop_time_ns >= *scan.profile_start_time_ns) {
      account->duration_ns = *scan.profile_stop_time_ns - *scan.profile_start_time_ns;
    }
  }
  if (scan.hostnames.size() == 1) account->host = scan.hostnames[0];
  for (const std::string& warning : scan.warnings) AddText(warning, &account->warnings);
  for (const std::string& error : scan.errors) AddText(error, &account->errors);
  if (scan.events == 0) {
    return {Outcome::kEmpty, Phase::kDone, "the trace holds no event", std::nullopt};
  }
  if (context.stopped_early) {
    return {Outcome::kTruncated, Phase::kDone, "ended by request", std::nullopt};
  }
  return {Outcome::kOk, Phase::kDone, "", std::nullopt};
}

WorkerOutcome JudgeTrace(const xspace::XSpaceScan& scan, const ReplyContext& context,
                         ManifestWorker* account) {
  v1::Summary summary;
  if (scan.summary.has_value()) {
    if (summary.ParseFromString(*scan.summary)) {
      return JudgeOwnTrace(summary, scan.events, account);
    }
    account->warnings.emplace_back("the worker's summary cannot be read");
  }
  return JudgeForeignTrace(scan, context, account);
}

// Handles an answer with neither xspace nor tool_data: an older stock server ignores emit_xspace
// and writes to its own disk, which may be ours.
WorkerOutcome JudgeAnswerWithoutTrace(const RunDirectory& directory, const std::string& stem,
                                      const ReplyIndex& index, const ReplyContext& context,
                                      ManifestWorker* account) {
  const std::string path = absl::StrCat(directory.path(), "/", stem, ".xplane.pb");
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0) {
    if (S_ISREG(info.st_mode) && info.st_size == 0 && !index.empty_trace) {
      return Failed(Phase::kTransfer,
                    absl::StrCat("the worker wrote an empty file, ", path,
                                 ": its trace exceeds 2 GiB; record for a shorter time, or at a "
                                 "lower level"));
    }
    const absl::StatusOr<xspace::XSpaceScan> scan = ScanFile(path);
    if (!scan.ok()) {
      return Failed(Phase::kTransfer, absl::StrCat("the worker wrote ", path,
                                                   " by itself: ", scan.status().message()));
    }
    account->files.push_back(
        {absl::StrCat(stem, ".xplane.pb"), static_cast<uint64_t>(info.st_size), scan->events});
    return JudgeTrace(*scan, context, account);
  }
  if (index.empty_trace) {
    account->events = 0;
    return {Outcome::kEmpty, Phase::kDone, "the worker says that it recorded nothing",
            std::nullopt};
  }
  return Failed(Phase::kTransfer,
                absl::StrCat("the answer holds no trace: this worker is too old to send one, and "
                             "wrote it on its own disk, under ",
                             directory.path(), "; take it from there, or update the worker"));
}

}  // namespace

WorkerOutcome WriteReply(const RunDirectory& directory, const std::string& stem,
                         const ReplyContext& context, grpc::ByteBuffer* reply,
                         ManifestWorker* account) {
  const uint64_t reply_bytes = reply->Length();
  std::vector<grpc::Slice> slices;
  if (reply_bytes > 0 && !reply->Dump(&slices).ok()) {
    return Failed(Phase::kTransfer, "the answer cannot be decompressed");
  }
  reply->Clear();
  const absl::StatusOr<ReplyIndex> index = IndexReply(slices);
  if (!index.ok()) return Failed(Phase::kTransfer, std::string(index.status().message()));
  for (const std::string& tool : index->other_tools) {
    account->warnings.push_back(absl::StrCat("left out of the run: tool data '", tool, "'"));
  }
  if (index->xspace.empty()) {
    return JudgeAnswerWithoutTrace(directory, stem, *index, context, account);
  }

  absl::StatusOr<std::unique_ptr<FileSink>> file = directory.CreateTrace(stem);
  if (!file.ok()) return Failed(Phase::kWrite, std::string(file.status().message()));
  const absl::Status copied = CopyRanges(&slices, index->xspace, file->get());
  if (!copied.ok()) return Failed(Phase::kWrite, std::string(copied.message()));
  slices.clear();
  slices.shrink_to_fit();
  if (reply_bytes >= kTrimBytes) malloc_trim(0);

  const absl::StatusOr<xspace::XSpaceScan> scan = ScanFile((*file)->temporary_path());
  if (!scan.ok()) {
    return Failed(Phase::kTransfer, absl::StrCat("the answer holds no readable trace: ",
                                                 std::string(scan.status().message())));
  }
  WorkerOutcome outcome = JudgeTrace(*scan, context, account);
  const absl::Status published = (*file)->Publish();
  if (!published.ok()) return Failed(Phase::kWrite, std::string(published.message()));
  account->files.push_back({absl::StrCat(stem, ".xplane.pb"), (*file)->bytes(), scan->events});
  if (context.native && !scan->summary.has_value()) {
    account->warnings.emplace_back(
        "the trace of this worker carries no summary: losses are not known");
  }
  return outcome;
}

}  // namespace jobscope
