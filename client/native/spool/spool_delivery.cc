// SPDX-License-Identifier: Apache-2.0
#include "client/native/spool/spool_delivery.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/run/judge_trace.h"
#include "common/files/file_sink.h"
#include "common/xspace/segment/loss_cause.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope {
namespace {

WorkerOutcome Failed(Phase phase, std::string reason) {
  return {Outcome::kFailed, phase, std::move(reason), std::nullopt};
}

// Counts omitted events as lost: they were attempted, and are not in the trace.
void LeaveOut(uint64_t events, LossCause cause, v1::Summary* summary) {
  if (events == 0 || summary->events() < events) return;
  summary->set_events(summary->events() - events);
  summary->set_lost(summary->lost() + events);
  v1::LossByCause& loss = *summary->add_lost_by_cause();
  loss.set_cause(Name(cause));
  loss.set_events(events);
}

std::string UnreadableText(const absl::Status& unreadable) {
  return absl::StrCat("the worker sent an unreadable item, and the trace ends before it: ",
                      unreadable.message());
}

// Writes one part to the system, not yet under its final name. `file` is the one being written.
absl::Status WritePart(const xspace::Assembler& assembler, size_t index,
                       const RunDirectory& directory, const std::string& stem,
                       std::unique_ptr<FileSink>* file) {
  absl::StatusOr<std::unique_ptr<FileSink>> created =
      directory.CreateTrace(stem, static_cast<int>(index + 1));
  if (!created.ok()) return created.status();
  *file = *std::move(created);
  absl::Status written = assembler.Write(index, file->get());
  if (written.ok()) written = (*file)->Flush();
  return written;
}

// No jobscope worker has as many.
template <typename Repeated>
void Shorten(Repeated* repeated) {
  constexpr int kMax = 1000;
  if (repeated->size() > kMax) repeated->DeleteSubrange(kMax, repeated->size() - kMax);
}

std::optional<v1::Summary> FindSummary(const xspace::ItemIndex& index) {
  if (!index.has_summary) return std::nullopt;
  v1::Summary summary = index.summary;
  // The summary goes into a manifest that all workers share.
  Shorten(summary.mutable_collectors());
  Shorten(summary.mutable_lost_by_cause());
  Shorten(summary.mutable_warnings());
  Shorten(summary.mutable_errors());
  return summary;
}

}  // namespace

SpoolDelivery::SpoolDelivery(SpooledCapture capture) : capture_(std::move(capture)) {}

WorkerOutcome SpoolDelivery::Write(const RunDirectory& directory, const std::string& stem,
                                   ManifestWorker* account) {
  account->protocol = Protocol::kNative;
  account->aligned = capture_.start.clock.has_value();
  FillClocks(account);
  WorkerOutcome outcome = WriteTrace(directory, stem, account);
  AddWarnings(outcome, account);
  return outcome;
}

xspace::AssembleOptions SpoolDelivery::OptionsFor(const std::string& stem,
                                                  std::optional<int> rank) const {
  xspace::AssembleOptions options;
  options.hostname = stem;
  options.part_limit_bytes = capture_.part_limit_bytes;
  options.keep_readable = true;
  options.rank = rank;
  if (capture_.start.clock.has_value()) options.zero_unix_ns = capture_.start.zero_unix_ns;
  if (capture_.received.summary_item == 0) {
    options.warnings.push_back(absl::StrCat(WhyIncomplete(), "; losses are not known"));
  } else if (capture_.received.limited()) {
    options.warnings.push_back(LimitText());
  }
  if (capture_.received.unknown_items > 0) options.warnings.push_back(UnknownText());
  return options;
}

WorkerOutcome SpoolDelivery::WriteTrace(const RunDirectory& directory, const std::string& stem,
                                        ManifestWorker* account) {
  if (!capture_.disk_error.ok()) {
    return Failed(Phase::kWrite, std::string(capture_.disk_error.message()));
  }
  if (capture_.spool == nullptr) {
    return Failed(Phase::kTransfer, "the worker ended its capture without sending anything");
  }
  std::unique_ptr<Spool> spool = std::move(capture_.spool);
  std::unique_ptr<SpoolIndex> spooled = std::move(capture_.index);
  if (spooled == nullptr) spooled = std::make_unique<SpoolIndex>(spool.get());
  const absl::Status complete = spooled->Complete(capture_.received.index_bytes);
  if (!complete.ok()) return Failed(Phase::kWrite, std::string(complete.message()));

  std::unique_ptr<FileSink> file;
  xspace::AssembleOptions options = OptionsFor(stem, account->rank);
  // First writes out what the file refers to: it would otherwise map everything again at once.
  options.release_pages = [&spooled, &file](const std::vector<uintptr_t>& chunks) {
    if (file != nullptr) (void)file->Flush();  // an error persists, and the next write returns it
    spooled->items().ReleasePages(chunks);
  };
  xspace::ItemIndex index = spooled->TakeIndex();
  std::optional<v1::Summary> summary = FindSummary(index);
  absl::StatusOr<xspace::Assembler> made =
      xspace::Assembler::CreateIndexed(std::move(index), std::move(options));
  if (!made.ok()) {
    return Failed(Phase::kTransfer, absl::StrCat("the worker sent items that make no trace: ",
                                                 made.status().message()));
  }
  std::optional<xspace::Assembler> assembler = *std::move(made);
  const std::vector<xspace::Part> parts = assembler->parts();
  ManifestWorker judged;
  WorkerOutcome outcome;
  for (size_t i = 0; i < parts.size(); ++i) {
    absl::Status written = WritePart(*assembler, i, directory, stem, &file);
    if (written.ok() && i + 1 == parts.size()) {
      judged = *account;
      if (capture_.received.summary_item == 0) {
        // 0 is not reported: the worker may have no steps at all.
        const uint64_t steps = assembler->CountSteps();
        if (steps > 0) judged.steps = steps;
      }
      outcome = Judge(summary, assembler->events(), assembler->unreadable(), &judged);
      // Frees memory that is no longer read while the disk is busy.
      assembler.reset();
      spooled.reset();
      spool.reset();
    }
    // The manifest, published last, makes the names in the run's directory durable.
    if (written.ok()) {
      written = file->Publish(i == 0 ? FileSink::Name::kLater : FileSink::Name::kLasts);
    }
    if (!written.ok()) {
      const std::string of =
          parts.size() == 1 ? "" : absl::StrCat("part ", i + 1, " of ", parts.size(), ": ");
      return Failed(Phase::kWrite, absl::StrCat(of, written.message()));
    }
    account->files.push_back(
        {directory.RelativePath(stem, static_cast<int>(i + 1)), file->bytes(), parts[i].events});
  }
  judged.files = account->files;
  *account = std::move(judged);
  return outcome;
}

std::string SpoolDelivery::LimitText() const {
  const ReceivedItems& received = capture_.received;
  const std::string planes = received.left_out_planes == 0
                                 ? ""
                                 : absl::StrCat(" and ", received.left_out_planes,
                                                " planes of frameworks (programs, their metadata)");
  return absl::StrCat(received.limit_reached, ": ", received.left_out_events, " events", planes,
                      " that came later were left out");
}

std::string SpoolDelivery::UnknownText() const {
  const ReceivedItems& received = capture_.received;
  return absl::StrCat(received.unknown_items, " items of kinds unknown to this program (",
                      received.unknown_kind,
                      ") were left out: the worker is newer; update this program to see them");
}

void SpoolDelivery::FillClocks(ManifestWorker* account) const {
  const std::optional<ClockEstimate>& clock = capture_.start.clock;
  if (!clock.has_value()) return;
  account->clock_offset_ns = clock->realtime_offset_ns;
  account->clock_uncertainty_ns = UncertaintyAt(*clock, capture_.start.start_monotonic_ns);
}

void SpoolDelivery::AddWarnings(const WorkerOutcome& outcome, ManifestWorker* account) const {
  const ReceivedItems& received = capture_.received;
  if (capture_.breaks > 0) {
    // The worker has accounted for every event, and it is in the file.
    const bool whole = (outcome.kind == Outcome::kOk || outcome.kind == Outcome::kEmpty) &&
                       account->lost == 0u && received.empty_items + received.unknown_items == 0;
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
                                             ", the last one received is ", received.last_item));
  }
  if (received.summary_item != 0 && received.summary_item != received.last_item) {
    account->warnings.push_back(absl::StrCat("the summary is item ", received.summary_item,
                                             ", but the last item is ", received.last_item));
  }
}

WorkerOutcome SpoolDelivery::Judge(std::optional<v1::Summary> summary, uint64_t events,
                                   const absl::Status& unreadable, ManifestWorker* account) const {
  if (!summary.has_value()) {
    WorkerOutcome outcome = JudgeWithoutSummary(events, account);
    if (!unreadable.ok()) outcome.reason = WithReason(UnreadableText(unreadable), outcome.reason);
    return outcome;
  }
  const ReceivedItems& received = capture_.received;
  if (!unreadable.ok()) {
    LeaveOut(received.events - std::min(received.events, events), LossCause::kUnreadable,
             &*summary);
  }
  if (received.limited()) LeaveOut(received.left_out_events, LossCause::kMaxTrace, &*summary);
  WorkerOutcome outcome = JudgeOwnTrace(*summary, events, account);
  if (!unreadable.ok()) {
    outcome.kind = Outcome::kTruncated;
    outcome.phase = Phase::kTransfer;
    outcome.reason = WithReason(UnreadableText(unreadable), CollectorReasons(*account));
  }
  if (received.limited()) {
    outcome.kind = Outcome::kTruncated;
    outcome.reason = WithReason(absl::StrCat(received.limit_reached, " after ",
                                             received.last_start_ps / 1'000'000'000, " ms"),
                                CollectorReasons(*account));
  }
  return outcome;
}

WorkerOutcome SpoolDelivery::JudgeWithoutSummary(uint64_t events, ManifestWorker* account) const {
  const StartCall& start = capture_.start;
  account->events = events;
  if (start.clock.has_value()) {
    // As unsigned numbers: the worker's clock may have any value.
    account->start_unix_ns =
        static_cast<int64_t>(static_cast<uint64_t>(start.zero_unix_ns) +
                             static_cast<uint64_t>(start.clock->realtime_offset_ns));
  }
  WorkerOutcome outcome{Outcome::kTruncated, Phase::kRecord, WhyIncomplete(), std::nullopt};
  if (capture_.after_end) outcome.phase = Phase::kTransfer;
  if (!capture_.status.ok()) outcome.grpc_code = static_cast<int>(capture_.status.error_code());
  return outcome;
}

std::string SpoolDelivery::WhyIncomplete() const {
  return WithReason(HowItBroke(), capture_.received.limit_reached);
}

std::string SpoolDelivery::HowItBroke() const {
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
