// SPDX-License-Identifier: Apache-2.0
#include "collectors/xspace_import/foreign_xspace.h"

#include <algorithm>
#include <protozero/exception.hpp>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "collectors/xspace_import/foreign_xspace_merge.h"
#include "collectors/xspace_import/foreign_xspace_plane.h"
#include "collectors/xspace_import/foreign_xspace_reader.h"
#include "common/text/utf8.h"
#include "common/xspace/segment/trace_planes.h"
#include "common/xspace/wire/absl_view.h"
#include "common/xspace/wire/fields.h"

namespace jobscope::framework {
namespace {

constexpr std::string_view kTaskEnvironment = "Task Environment";
constexpr absl::string_view kGpuPrefix = "/device:GPU:";

constexpr size_t kMaxWarnings = 32;
constexpr size_t kMaxTextBytes = 500;

// Returns when the framework began, from its own `Task Environment`.
std::optional<int64_t> StartTimeOf(std::string_view plane_bytes) {
  const ForeignPlane plane = ReadForeignPlane(plane_bytes);
  for (const std::string_view bytes : plane.stats) {
    const ForeignStat stat = ReadForeignStat(bytes);
    if (plane.StatName(stat.metadata_id) == "profile_start_time" && stat.integer != 0) {
      return static_cast<int64_t>(stat.integer);
    }
  }
  return std::nullopt;
}

}  // namespace

ForeignXSpace::ForeignXSpace(xspace::ItemSink* sink, xspace::Names* names, ForeignOptions options) {
  session_.sink = sink;
  session_.names = names;
  session_.options = std::move(options);
}

ForeignXSpace::~ForeignXSpace() = default;

absl::Status ForeignXSpace::Merge(std::string_view bytes, const ForeignTime& time,
                                  const ForeignWindow& window) {
  try {
    MergePlanes(bytes, time, window);
  } catch (const protozero::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("what ", session_.options.origin, " recorded is not a complete XSpace (",
                     error.what(), "); what precedes the error is in the trace"));
  }
  return absl::OkStatus();
}

void ForeignXSpace::MergePlanes(std::string_view bytes, const ForeignTime& time,
                                const ForeignWindow& window) {
  const ForeignSpace space = ReadForeignSpace(bytes);
  TakeTexts(space.errors);
  TakeTexts(space.warnings);
  if (time.stepped()) {
    Warn(absl::StrCat("the system's clock was set while ", session_.options.origin,
                      " recorded: its events may have wrong times"));
  }
  int64_t start_unix_ns = time.start_unix_ns();
  for (const std::string_view plane : space.planes) {
    if (ReadForeignPlaneName(plane) != kTaskEnvironment) continue;
    const int64_t plane_start_ns = StartTimeOf(plane).value_or(start_unix_ns);
    // A start on another day than this recording cannot be right.
    const __int128 apart = __int128{plane_start_ns} - time.start_unix_ns();
    if (apart >= -kDayNs && apart <= kDayNs) start_unix_ns = plane_start_ns;
  }
  uint64_t gpu_events = 0;
  for (const std::string_view plane_bytes : space.planes) {
    const ForeignPlane plane = ReadForeignPlane(plane_bytes);
    if (plane.name == kTaskEnvironment) continue;
    const bool is_gpu = absl::StartsWith(xspace::AbslView(plane.name), kGpuPrefix);
    if (is_gpu && (session_.options.drop_gpu_planes || plane.lines.empty())) {
      for (const std::string_view line : plane.lines) gpu_events += ReadForeignLine(line).events;
    } else if (plane.lines.empty() && plane.name != kHostPlaneName) {
      KeepRaw(plane.name, plane_bytes);
    } else {
      MergePlane(plane, time, window, start_unix_ns, &session_);
    }
  }
  if (gpu_events > 0) {
    Warn(absl::StrCat(gpu_events, " GPU events of ", session_.options.origin,
                      " were left out: this capture has its own"));
  }
}

void ForeignXSpace::TakeTexts(const std::vector<std::string_view>& texts) {
  for (const std::string_view text : texts) {
    Warn(absl::StrCat(session_.options.origin, ": ",
                      xspace::AbslView(Utf8Prefix(text, kMaxTextBytes))));
  }
}

void ForeignXSpace::Warn(std::string_view text) {
  std::vector<std::string>& warnings = session_.account.warnings;
  if (warnings.size() >= kMaxWarnings) return;
  std::string scratch;
  std::string clean(ToUtf8(Utf8Prefix(text, kMaxTextBytes), &scratch));
  if (std::find(warnings.begin(), warnings.end(), clean) == warnings.end()) {
    warnings.push_back(std::move(clean));
  }
}

void ForeignXSpace::KeepRaw(std::string_view name, std::string_view bytes) {
  size_t left_out = 0;
  std::string copied = CopyRawPlane(bytes, kMaxRawPlaneBytes, &left_out);
  if (left_out > 0) {
    Warn(absl::StrCat(left_out, " entries of ", session_.options.origin, "'s plane ",
                      xspace::AbslView(name), " were left out: it is larger than ",
                      kMaxRawPlaneBytes >> 20, " MiB"));
  }
  // A framework repeats everything it knows each time.
  std::string& kept = raw_planes_[std::string(name)];
  if (copied.size() < kept.size()) return;
  if (raw_bytes_ - kept.size() + copied.size() > kMaxRawBytes) {
    Warn(absl::StrCat(session_.options.origin, "'s plane ", xspace::AbslView(name),
                      " was left out: such planes are larger than ", kMaxRawBytes >> 20,
                      " MiB in all"));
    return;
  }
  raw_bytes_ += copied.size() - kept.size();
  kept = std::move(copied);
}

void ForeignXSpace::Finish() {
  for (const auto& [name, bytes] : raw_planes_) {
    if (bytes.empty()) continue;  // already left out
    std::string item;
    protozero::pbf_writer(item).add_bytes(xspace::raw_plane_field::kPlane, bytes);
    if (!session_.sink->Append(xspace::ItemKind::kRawPlane, item)) {
      Warn(absl::StrCat("the store had no room for ", session_.options.origin, "'s plane ", name));
    }
  }
  raw_planes_.clear();
  raw_bytes_ = 0;
}

}  // namespace jobscope::framework
