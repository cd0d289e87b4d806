// SPDX-License-Identifier: Apache-2.0
#include "client/spool_delivery.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "client/judge_trace.h"
#include "common/file_sink.h"
#include "common/xspace/assembler.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope {
namespace {

Verdict Failed(Phase phase, std::string reason) {
  return {Outcome::kFailed, phase, std::move(reason), std::nullopt};
}

std::string PathOfPart(const RunDirectory& directory, const std::string& stem, size_t part) {
  if (part == 1) return absl::StrCat(stem, ".xplane.pb");
  return absl::StrCat("../", directory.run(), ".part", part, "/", stem, ".xplane.pb");
}

// A share in the memory that indexes may take.
class IndexMemory {
 public:
  explicit IndexMemory(uint64_t bytes) : bytes_(std::min(bytes, kAll)) {
    const absl::MutexLock lock(&mutex_);
    const auto room = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return bytes_ <= kAll - taken_; };
    mutex_.Await(absl::Condition(&room));
    taken_ += bytes_;
  }
  ~IndexMemory() {
    const absl::MutexLock lock(&mutex_);
    taken_ -= bytes_;
  }
  IndexMemory(const IndexMemory&) = delete;
  IndexMemory& operator=(const IndexMemory&) = delete;

 private:
  static constexpr uint64_t kAll = uint64_t{1} << 30;
  static absl::Mutex mutex_;
  static uint64_t taken_;
  const uint64_t bytes_;
};
ABSL_CONST_INIT absl::Mutex IndexMemory::mutex_(absl::kConstInit);
uint64_t IndexMemory::taken_ = 0;

// What was left out was attempted, and is not in the trace.
void LeaveOut(uint64_t events, const char* cause, v1::Summary* summary) {
  if (events == 0 || summary->events() < events) return;
  summary->set_events(summary->events() - events);
  summary->set_lost(summary->lost() + events);
  v1::LossByCause& loss = *summary->add_lost_by_cause();
  loss.set_cause(cause);
  loss.set_events(events);
}

std::string UnreadableText(const absl::Status& unreadable) {
  return absl::StrCat("the worker sent what cannot be read, and the trace ends before it: ",
                      unreadable.message());
}

// Not OK: the part is not there, and nothing of it under its name. `file` is the one that is
// being written.
absl::Status WritePart(const xspace::Assembler& assembler, size_t index,
                       const RunDirectory& directory, const std::string& stem,
                       std::unique_ptr<FileSink>* file, ManifestWorker* account) {
  const size_t part = index + 1;
  absl::StatusOr<std::unique_ptr<FileSink>> created =
      directory.CreateTrace(stem, static_cast<int>(part));
  if (!created.ok()) return created.status();
  *file = *std::move(created);
  absl::Status written = assembler.Write(index, file->get());
  // The manifest, which is published last, makes the names in the run's directory last.
  if (written.ok()) {
    written = (*file)->Publish(part == 1 ? FileSink::Name::kLater : FileSink::Name::kLasts);
  }
  if (!written.ok()) return written;
  account->files.push_back(
      {PathOfPart(directory, stem, part), (*file)->bytes(), assembler.parts()[index].events});
  return absl::OkStatus();
}

// No worker of ours has as many.
template <typename Repeated>
void Shorten(Repeated* repeated) {
  constexpr int kMax = 1000;
  if (repeated->size() > kMax) repeated->DeleteSubrange(kMax, repeated->size() - kMax);
}

std::optional<v1::Summary> FindSummary(const std::vector<xspace::ItemView>& items) {
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    if (item->kind != xspace::ItemKind::kSummary) continue;
    v1::Summary summary;
    if (item->body.size() > std::numeric_limits<int>::max() ||
        !summary.ParseFromArray(item->body.data(), static_cast<int>(item->body.size()))) {
      break;
    }
    // What becomes of it stands in a manifest that all workers share.
    Shorten(summary.mutable_collectors());
    Shorten(summary.mutable_lost_by_cause());
    Shorten(summary.mutable_warnings());
    Shorten(summary.mutable_errors());
    return summary;
  }
  return std::nullopt;
}

}  // namespace

SpoolDelivery::SpoolDelivery(SpooledCapture capture) : capture_(std::move(capture)) {}

Verdict SpoolDelivery::Write(const RunDirectory& directory, const std::string& stem,
                             ManifestWorker* account) {
  account->protocol = "native";
  account->aligned = capture_.start.clock.has_value();
  FillClocks(account);
  AddWarnings(account);
  if (!capture_.disk_error.ok()) {
    return Failed(Phase::kWrite, std::string(capture_.disk_error.message()));
  }
  if (capture_.spool == nullptr) {
    return Failed(Phase::kTransfer, "the worker ended its capture without sending anything");
  }
  const IndexMemory memory(capture_.received.index_bytes);
  const std::unique_ptr<Spool> spool = std::move(capture_.spool);
  const absl::StatusOr<std::unique_ptr<SpoolItems>> items = SpoolItems::Read(*spool);
  if (!items.ok()) return Failed(Phase::kWrite, std::string(items.status().message()));

  xspace::AssembleOptions options;
  options.hostname = stem;
  options.part_limit_bytes = capture_.part_limit_bytes;
  options.keep_readable = true;
  // What the file holds by reference goes out first: it would map everything again at once.
  std::unique_ptr<FileSink> file;
  options.let_go = [&items, &file](const std::vector<uintptr_t>& chunks) {
    if (file != nullptr) (void)file->Flush();  // an error stays, and the next write returns it
    (*items)->LetGo(chunks);
  };
  if (capture_.start.clock.has_value()) options.zero_unix_ns = capture_.start.zero_unix_ns;
  if (capture_.received.summary_item == 0) {
    options.warnings.push_back(absl::StrCat(WhyIncomplete(), "; losses are not known"));
  } else if (capture_.received.limited()) {
    options.warnings.push_back(absl::StrCat(capture_.received.limit_reached, ": ",
                                            capture_.received.left_out_events,
                                            " events that came later were left out"));
  }
  if (capture_.received.unknown_items > 0) options.warnings.push_back(UnknownText());
  const absl::StatusOr<xspace::Assembler> assembler =
      xspace::Assembler::Create((*items)->items(), std::move(options));
  if (!assembler.ok()) {
    return Failed(Phase::kTransfer, absl::StrCat("the worker sent items that make no trace: ",
                                                 assembler.status().message()));
  }
  const size_t parts = assembler->parts().size();
  for (size_t i = 0; i < parts; ++i) {
    const absl::Status written = WritePart(*assembler, i, directory, stem, &file, account);
    if (written.ok()) continue;
    const std::string of = parts == 1 ? "" : absl::StrCat("part ", i + 1, " of ", parts, ": ");
    return Failed(Phase::kWrite, absl::StrCat(of, written.message()));
  }
  return Judge((*items)->items(), assembler->events(), assembler->unreadable(), account);
}

std::string SpoolDelivery::UnknownText() const {
  const ReceivedItems& received = capture_.received;
  return absl::StrCat(received.unknown_items, " items of kinds that this program does not know (",
                      received.unknown_kind,
                      ") were left out: the worker is newer; update this program to see them");
}

void SpoolDelivery::FillClocks(ManifestWorker* account) const {
  const std::optional<ClockEstimate>& clock = capture_.start.clock;
  if (!clock.has_value()) return;
  account->clock_offset_ns = clock->realtime_offset_ns;
  account->clock_uncertainty_ns = UncertaintyAt(*clock, capture_.start.start_monotonic_ns);
}

void SpoolDelivery::AddWarnings(ManifestWorker* account) const {
  const ReceivedItems& received = capture_.received;
  const bool whole = received.summary_item != 0;
  if (capture_.breaks > 0) {
    const std::string times =
        capture_.breaks == 1 ? "once" : absl::StrCat(capture_.breaks, " times");
    account->warnings.push_back(absl::StrFormat("the connection was lost %s, for %.1f s%s", times,
                                                absl::ToDoubleSeconds(capture_.outage),
                                                whole ? "; nothing is missing" : ""));
  }
  if (received.unknown_items > 0) account->warnings.push_back(UnknownText());
  if (received.empty_items > 0) {
    account->warnings.push_back(
        absl::StrCat(received.empty_items,
                     " items came without their content: they were larger than the "
                     "worker sends"));
  }
  if (capture_.announced_last_item.has_value() &&
      *capture_.announced_last_item != received.last_item) {
    account->warnings.push_back(absl::StrCat("the worker ended with item ",
                                             *capture_.announced_last_item,
                                             ", the last that came is ", received.last_item));
  }
  if (whole && received.summary_item != received.last_item) {
    account->warnings.push_back(absl::StrCat("the summary is item ", received.summary_item,
                                             ", but the last item is ", received.last_item));
  }
}

Verdict SpoolDelivery::Judge(const std::vector<xspace::ItemView>& items, uint64_t events,
                             const absl::Status& unreadable, ManifestWorker* account) const {
  std::optional<v1::Summary> summary = FindSummary(items);
  if (!summary.has_value()) {
    Verdict verdict = JudgeWithoutSummary(events, account);
    if (!unreadable.ok()) verdict.reason = WithReason(UnreadableText(unreadable), verdict.reason);
    return verdict;
  }
  const ReceivedItems& received = capture_.received;
  if (!unreadable.ok()) {
    LeaveOut(received.events - std::min(received.events, events), "unreadable", &*summary);
  }
  if (received.limited()) LeaveOut(received.left_out_events, "max_trace", &*summary);
  Verdict verdict = JudgeOwnTrace(*summary, events, account);
  if (!unreadable.ok()) {
    verdict.outcome = Outcome::kTruncated;
    verdict.phase = Phase::kTransfer;
    verdict.reason = WithReason(UnreadableText(unreadable), CollectorReasons(*account));
  }
  if (received.limited()) {
    verdict.outcome = Outcome::kTruncated;
    verdict.reason = WithReason(absl::StrCat(received.limit_reached, " after ",
                                             received.last_start_ps / 1'000'000'000, " ms"),
                                CollectorReasons(*account));
  }
  return verdict;
}

Verdict SpoolDelivery::JudgeWithoutSummary(uint64_t events, ManifestWorker* account) const {
  const StartCall& start = capture_.start;
  account->events = events;
  if (start.clock.has_value()) {
    // As unsigned numbers: the worker's clock may be anywhere.
    account->start_unix_ns =
        static_cast<int64_t>(static_cast<uint64_t>(start.zero_unix_ns) +
                             static_cast<uint64_t>(start.clock->realtime_offset_ns));
  }
  Verdict verdict{Outcome::kTruncated, Phase::kRecord, WhyIncomplete(), std::nullopt};
  if (capture_.after_end) verdict.phase = Phase::kTransfer;
  if (!capture_.status.ok()) verdict.grpc_code = static_cast<int>(capture_.status.error_code());
  return verdict;
}

std::string SpoolDelivery::WhyIncomplete() const {
  if (capture_.status.ok()) return "the worker ended its capture without a summary";
  const StartCall& start = capture_.start;
  const absl::Duration lookback =
      absl::Nanoseconds(static_cast<int64_t>(start.start_monotonic_ns - start.zero_monotonic_ns));
  const absl::Duration arrived =
      absl::Nanoseconds(capture_.received.last_start_ps / 1000) - lookback;
  const std::string of = start.steps.has_value()
                             ? ""
                             : absl::StrFormat(" of %.1f s", absl::ToDoubleSeconds(start.duration));
  const char* const what = capture_.after_end     ? "broke off while the trace was sent"
                           : capture_.orderly_end ? "ended while recording"
                                                  : "died while recording";
  return absl::StrFormat("%s: %s; %.1f s%s arrived", what, ReasonOf(capture_.status),
                         absl::ToDoubleSeconds(std::max(arrived, absl::ZeroDuration())), of);
}

}  // namespace jobscope
