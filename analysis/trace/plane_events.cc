// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/plane_events.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/wire.h"

namespace jobscope::analysis {
namespace {

// Returns the number of ids for which a table is used, in a plane with so many names. Ids are
// usually dense from 1; a table for larger ones would be mostly empty, and made for each plane.
uint64_t TableLimit(size_t names) {
  constexpr uint64_t kMaxLimit = 1 << 16;
  return std::min<uint64_t>(kMaxLimit, 2 * (names + 1));
}

}  // namespace

PlaneEvents::PlaneEvents(PlaneNames names, NameTable* table, bool of_device)
    : names_(std::move(names)), table_(table), of_device_(of_device) {
  static const std::unordered_map<std::string_view, Fact> kFacts = {
      {"_r", Fact::kRoot},
      {"step_num", Fact::kStep},
      {"clipped_step", Fact::kClippedStep},
      {"run_delay_ns", Fact::kRunDelay},
      {"cpu_ns", Fact::kCpu},
      {"_ipl_stage_name", Fact::kStage},
      {"compilation", Fact::kCompilation},
      {"process_group", Fact::kGroup},
      {"sequence", Fact::kSequence},
      {"bytes", Fact::kBytes},
      {"group_size", Fact::kGroupSize},
  };
  const uint64_t limit = TableLimit(names_.stats.size());
  for (const auto& [id, name] : names_.stats) {
    if (name == "source") source_stat_ = std::max(source_stat_, id);
    if (name == "correlation_id") correlation_stat_ = std::max(correlation_stat_, id);
    const auto fact = kFacts.find(name);
    if (fact == kFacts.end()) continue;
    any_facts_ = true;
    if (id < limit) {
      if (id >= facts_.size()) facts_.resize(id + 1, Fact::kNone);
      facts_[id] = fact->second;
    } else {
      far_facts_[id] = fact->second;
    }
  }
}

PlaneEvents::Fact PlaneEvents::FactOf(uint64_t stat_id) const {
  if (stat_id < facts_.size()) return facts_[stat_id];
  if (far_facts_.empty()) return Fact::kNone;
  const auto fact = far_facts_.find(stat_id);
  return fact == far_facts_.end() ? Fact::kNone : fact->second;
}

void PlaneEvents::Take(const Stat& stat, EventFacts* facts) const {
  const bool is_integer = stat.type == Stat::Type::kInteger;
  switch (FactOf(stat.metadata_id)) {
    case Fact::kNone:
      return;
    case Fact::kRoot:
      facts->root = is_integer && stat.integer != 0;
      return;
    case Fact::kStep:
      if (is_integer) facts->step = stat.integer;
      return;
    case Fact::kClippedStep:
      facts->clipped_step = true;
      return;
    case Fact::kRunDelay:
      if (is_integer && stat.integer >= 0) facts->not_running_ns = stat.integer;
      return;
    case Fact::kCpu:
      if (is_integer && stat.integer >= 0) facts->cpu_ns = stat.integer;
      return;
    case Fact::kStage:
      facts->input = true;
      return;
    case Fact::kCompilation:
      facts->compilation = is_integer && stat.integer != 0;
      return;
    case Fact::kGroup:
      facts->collective = !facts->enqueue;
      facts->group = names_.Text(stat);
      if (is_integer) facts->group_number = stat.integer;
      return;
    case Fact::kSequence:
      if (is_integer) facts->sequence = stat.integer;
      return;
    case Fact::kBytes:
      if (is_integer && stat.integer >= 0) facts->bytes = static_cast<uint64_t>(stat.integer);
      return;
    case Fact::kGroupSize:  // no mark: programs have groups of other things, too
      if (is_integer && stat.integer > 0 && stat.integer <= INT32_MAX) {
        facts->group_size = static_cast<uint32_t>(stat.integer);
      }
      return;
  }
}

EventMeaning PlaneEvents::Resolve(uint64_t metadata_id) const {
  EventMeaning meaning;
  const auto found = names_.events.find(metadata_id);
  if (found == names_.events.end()) {
    meaning.kind = of_device_ ? EventKind::kKernel : EventKind::kScope;
    meaning.name = table_->Intern("(no name)", meaning.kind, {});
    return meaning;
  }
  const EventMetadata& metadata = found->second;
  meaning.facts.enqueue = IsEnqueue(metadata.name);
  std::string_view source;
  ForEachStat(metadata.message, xspace::xevent_metadata_field::kStats, [&](const Stat& stat) {
    if (source_stat_ != 0 && stat.metadata_id == source_stat_) source = names_.Text(stat);
    Take(stat, &meaning.facts);
  });
  // The display name is the program's own name for it, where that could not be used as the name, or
  // that of a TPU's operation, whose name is its whole HLO text.
  const std::string_view display =
      metadata.display_name.empty() ? metadata.name : metadata.display_name;
  meaning.kind = of_device_ ? DeviceEventKind(display) : HostEventKind(metadata.name);
  meaning.launches_collective = !of_device_ && LaunchesCollective(metadata.name);
  if (meaning.facts.compilation) meaning.kind = EventKind::kCompilation;
  if (meaning.facts.collective) meaning.kind = EventKind::kCollective;
  std::string_view name = display;
  constexpr std::string_view kInputPrefix = "IteratorGetNext ";
  if (name.size() > kInputPrefix.size() && name.substr(0, kInputPrefix.size()) == kInputPrefix) {
    name.remove_prefix(kInputPrefix.size());  // jobscope's prefix for XProf
  }
  meaning.name = table_->Intern(name, meaning.kind, source);
  return meaning;
}

const EventMeaning& PlaneEvents::MeaningOf(uint64_t metadata_id) {
  if (metadata_id < TableLimit(names_.events.size())) {
    if (metadata_id >= meanings_.size()) meanings_.resize(metadata_id + 1);
    std::optional<EventMeaning>& meaning = meanings_[metadata_id];
    if (!meaning.has_value()) meaning = Resolve(metadata_id);
    return *meaning;
  }
  // Foreign ids without a name share one entry; otherwise they could fill the memory.
  const uint64_t key = names_.events.count(metadata_id) != 0 ? metadata_id : 0;
  if (key == 0) return MeaningOf(0);
  const auto known = far_meanings_.find(key);
  if (known != far_meanings_.end()) return known->second;
  return far_meanings_.emplace(key, Resolve(key)).first->second;
}

bool PlaneEvents::HasNoFacts(std::string_view stats) const {
  const char* in = stats.data();
  const char* const end = in + stats.size();
  // Fast path: most stats begin with their id and are short; others are parsed in full.
  while (end - in >= 4 && in[0] == xspace::BytesTag(xspace::xevent_field::kStats) &&
         static_cast<uint8_t>(in[1]) < 0x80 &&
         in[2] == xspace::VarintTag(xspace::xstat_field::kMetadataId) &&
         static_cast<uint8_t>(in[3]) < 0x80 && FactOf(static_cast<uint8_t>(in[3])) == Fact::kNone) {
    in += 2 + in[1];
  }
  return in == end;
}

std::optional<int64_t> PlaneEvents::CorrelationOf(const RawEvent& event) const {
  std::optional<int64_t> correlation;
  if (!event.has_stats || correlation_stat_ == 0) return correlation;
  ForEachStat(event.message, xspace::xevent_field::kStats, [&](const Stat& stat) {
    if (stat.metadata_id == correlation_stat_ && stat.type == Stat::Type::kInteger) {
      correlation = stat.integer;
    }
  });
  return correlation;
}

EventFacts PlaneEvents::FactsOf(const RawEvent& event, const EventFacts& of_metadata) const {
  EventFacts facts = of_metadata;
  if (!event.has_stats || !any_facts_ || HasNoFacts(event.message)) return facts;
  ForEachStat(event.message, xspace::xevent_field::kStats,
              [&](const Stat& stat) { Take(stat, &facts); });
  return facts;
}

}  // namespace jobscope::analysis
