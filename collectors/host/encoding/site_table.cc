// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/encoding/site_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/xspace/segment/event_names.h"
#include "common/xspace/segment/nvtx_place.h"
#include "common/xspace/wire/absl_view.h"

namespace jobscope::host {
namespace {

// Bounds ids: the dictionary is far smaller, and an invalid id must not cause an allocation.
constexpr uint32_t kMaxSiteId = 1u << 20;
constexpr uint32_t kMaxNameId = 1u << 20;

// Bounds strings that arrived with events. 4,096 of the longest are 480 KiB.
constexpr size_t kMaxStrings = 4096;
constexpr size_t kMaxStringBytes = 512 * 1024;

// Bounds messages of sites that are named by their argument: up to 120 bytes each.
constexpr size_t kMaxNamedEvents = 16384;

}  // namespace

SiteTable::SiteTable(const Reader* reader, xspace::Names* names, xspace::PlaneKey plane)
    : reader_(reader), names_(names), plane_(plane) {
  // Most events have `tf_op`: it comes first, so that its id takes one byte.
  common_.tf_op = names->Stat(plane, "tf_op");
  common_.r = names->Stat(plane, "_r");
  common_.step_num = names->Stat(plane, "step_num");
  common_.clipped_step = names->Stat(plane, "clipped_step");
  common_.truncated = names->Stat(plane, "truncated");
  common_.truncated_args = names->Stat(plane, "truncated_args");
  common_.true_start_ns = names->Stat(plane, "true_start_ns");
  common_.true_end_ns = names->Stat(plane, "true_end_ns");
  common_.marked_start_ns = names->Stat(plane, "marked_start_ns");
  common_.producer_type = names->Stat(plane, "_pt");
  common_.producer = names->Stat(plane, "_p");
  common_.consumer_type = names->Stat(plane, "_ct");
  common_.consumer = names->Stat(plane, "_c");
  common_.async_id = names->Stat(plane, "async_id");
  common_.async_begin = names->Stat(plane, "async_begin");
  common_.async_end = names->Stat(plane, "async_end");
  common_.flow = names->Stat(plane, "flow_id");
}

std::string_view SiteTable::DescribePlace(const jobscope_site_info& info,
                                          xspace::StatsEncoder* metadata) {
  const std::string_view category = info.category == nullptr ? "" : info.category;
  const std::string_view file = info.file == nullptr ? "" : info.file;
  if (IsNvtxPlace(file)) {
    const NvtxPlace place = ParseNvtxPlace(file);
    metadata->String(names_->Stat(plane_, "nvtx_domain"),
                     place.domain.empty() ? "default" : place.domain);
    if (!place.category.empty()) metadata->String(names_->Stat(plane_, "category"), place.category);
    if (!place.color.empty()) metadata->String(names_->Stat(plane_, "color"), place.color);
    return place.domain.empty() ? "NVTX" : place.domain;
  }
  if (!category.empty()) metadata->String(names_->Stat(plane_, "category"), category);
  if (!file.empty()) {
    metadata->String(names_->Stat(plane_, "source"), absl::StrCat(info.file, ":", info.line));
  }
  return category;
}

const Site* SiteTable::Load(uint32_t id) {
  if (id >= kMaxSiteId) return nullptr;
  jobscope_site_info info{};
  if (reader_->site(id, &info) != 0 || info.name == nullptr) return nullptr;

  Site site;
  site.name = info.name;
  site.role = info.role;
  // What is the same for all events of a site is stored once, in its metadata: viewers show it with
  // each event.
  xspace::StatsEncoder metadata(xspace::StatsOf::kEventMetadata);
  const std::string_view category = DescribePlace(info, &metadata);

  const bool is_inferred = site.role == JOBSCOPE_ROLE_INFERRED_STEP;
  const bool is_step = site.role == JOBSCOPE_ROLE_STEP || is_inferred;
  if (is_inferred) metadata.Int64(names_->Stat(plane_, "inferred"), 1);

  std::string name = xspace::SafeEventName(site.name);
  std::string display_name = name == site.name ? "" : site.name;
  if (is_step) {
    // A step may have any name; other events must not look like a whole step.
    site.clipped_event_id = names_->Event(plane_, name, display_name, metadata.bytes());
    name = site.name.empty() ? "step" : site.name;
    display_name.clear();
  } else if (site.role == JOBSCOPE_ROLE_INPUT_WAIT) {
    // XProf counts events with this prefix as waiting for input.
    name = absl::StrCat("IteratorGetNext ", site.name);
    display_name.clear();
  }
  site.event_id = names_->Event(plane_, name, display_name, metadata.bytes());
  site.named_by_argument =
      info.file != nullptr && IsNvtxPlace(info.file) && site.name == kNvtxMoreNames;
  if (site.named_by_argument) site.metadata = std::string(metadata.bytes());
  if (!is_step) site.clipped_event_id = site.event_id;
  if (site.role == JOBSCOPE_ROLE_COUNTER) {
    site.counter_id = names_->Stat(plane_, xspace::SafeStatName(site.name));
  }

  site.key_count = std::min<uint32_t>(info.key_count, JOBSCOPE_MAX_KEYS);
  for (uint32_t i = 0; i < site.key_count; ++i) {
    site.key_ids[i] =
        names_->Stat(plane_, xspace::SafeStatName(info.keys[i] == nullptr ? "" : info.keys[i]));
  }

  if (is_step) {
    site.key_count = JOBSCOPE_STEP_INVOLUNTARY_SWITCHES + 1;
    site.key_ids[0] = common_.step_num;
    site.key_ids[JOBSCOPE_STEP_CPU_NS] = names_->Stat(plane_, "cpu_ns");
    site.key_ids[JOBSCOPE_STEP_RUN_DELAY_NS] = names_->Stat(plane_, "run_delay_ns");
    site.key_ids[JOBSCOPE_STEP_INVOLUNTARY_SWITCHES] = names_->Stat(plane_, "involuntary_switches");
  }

  // XProf reads `tf_op` only from events, not from metadata. Verbose scopes omit it: its seven
  // bytes are half an event.
  if (site.role == JOBSCOPE_ROLE_SCOPE && info.bit != JOBSCOPE_BIT_LEVEL3) {
    if (const std::string op = xspace::TfOpOf(site.name, category); !op.empty()) {
      site.tf_op_ref = names_->Stat(plane_, op);
      xspace::StatsEncoder stats(xspace::StatsOf::kEvent);
      stats.Ref(common_.tf_op, site.tf_op_ref);
      site.stats = std::string(stats.bytes());
    }
  }

  const bool is_counter = site.role == JOBSCOPE_ROLE_COUNTER;
  site.complete = site.event_id != 0 && site.clipped_event_id != 0 &&
                  (!is_counter || site.counter_id != 0) &&
                  std::find(site.key_ids, site.key_ids + site.key_count, uint64_t{0}) ==
                      site.key_ids + site.key_count;
  if (id >= sites_.size()) sites_.resize(id + 1);
  if (sites_[id] == nullptr) sites_[id] = &storage_.emplace_back();
  *sites_[id] = std::move(site);
  return sites_[id];
}

uint64_t SiteTable::NameRef(uint32_t name_id) {
  if (name_id >= kMaxNameId) return 0;
  if (name_id < name_refs_.size() && name_refs_[name_id] != 0) return name_refs_[name_id];
  const char* const name = reader_->name(name_id);
  // A value becomes a name among the plane's stats: one that XProf acts on must not appear there.
  if (name == nullptr || xspace::SafeStatName(name) != name) return 0;
  const uint64_t ref = names_->Stat(plane_, name);
  if (name_id >= name_refs_.size()) name_refs_.resize(name_id + 1);
  name_refs_[name_id] = ref;
  return ref;
}

uint64_t SiteTable::StringRef(std::string_view text) {
  if (newest_string_ref_ != 0 && text == newest_string_) return newest_string_ref_;
  const auto found = strings_.find(xspace::AbslView(text));
  if (found != strings_.end()) {
    if (found->second == 0) found->second = names_->Stat(plane_, text);
    newest_string_ = text;
    newest_string_ref_ = found->second;
    return found->second;
  }
  if (xspace::SafeStatName(text) != text) return 0;  // as in NameRef
  if (strings_.size() < kMaxStrings && string_bytes_ + text.size() <= kMaxStringBytes) {
    strings_.emplace(std::string(text), 0);
    string_bytes_ += text.size();
  }
  return 0;
}

uint64_t SiteTable::EventNamed(const Site& site, std::string_view message) {
  std::string key = absl::StrCat(site.event_id, " ", xspace::AbslView(message));
  const auto found = named_events_.find(key);
  if (found != named_events_.end()) return found->second;
  if (named_events_.size() >= kMaxNamedEvents) return 0;
  const std::string name = xspace::SafeEventName(message);
  const uint64_t id = names_->Event(plane_, name, name == message ? "" : message, site.metadata);
  if (id != 0) named_events_.emplace(std::move(key), id);
  return id;
}

uint64_t SiteTable::StepMarkId() {
  if (step_mark_id_ == 0) step_mark_id_ = names_->Event(plane_, "step_end", "", "");
  return step_mark_id_;
}

uint64_t SiteTable::KeyOfIndex(uint32_t index) {
  return names_->Stat(plane_, absl::StrCat("arg", index));
}

}  // namespace jobscope::host
