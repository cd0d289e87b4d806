// SPDX-License-Identifier: Apache-2.0
#include "collectors/xspace_import/foreign_xspace_names.h"

#include "collectors/inferred/compilations.h"
#include "common/xspace/segment/trace_planes.h"

namespace jobscope::framework {

ForeignPlaneNames::ForeignPlaneNames(xspace::Names* names, const ForeignPlane* foreign)
    : names_(names), foreign_(foreign), is_host_(foreign->name == kHostPlaneName) {}

xspace::PlaneKey ForeignPlaneNames::Plane() {
  if (plane_ == 0) plane_ = names_->Plane(foreign_->name, is_host_ ? kHostPlaneId : foreign_->id);
  return plane_;
}

uint64_t ForeignPlaneNames::Stat(std::string_view name) { return names_->Stat(Plane(), name); }

ForeignPlaneNames::StatKey ForeignPlaneNames::Key(uint64_t foreign_id) {
  StatKey& key = stats_by_id_[foreign_id].as_key;
  if (key.id != 0 || key.kind == StatKey::kLeftOut) return key;
  const std::string_view name = foreign_->StatName(foreign_id);
  if (name == "_r") {
    key.kind = StatKey::kRoot;
  } else if (name == "step_num") {
    key.kind = StatKey::kStepNumber;
  } else if (name.empty() || name == "group_id") {
    // XProf does no grouping in a trace with group ids.
    key.kind = StatKey::kLeftOut;
    return key;
  }
  key.id = Stat(name);
  return key;
}

uint64_t ForeignPlaneNames::Text(uint64_t foreign_id) {
  StatName& stat = stats_by_id_[foreign_id];
  if (stat.as_text == 0) stat.as_text = Stat(foreign_->StatName(foreign_id));
  return stat.as_text;
}

void ForeignPlaneNames::Encode(uint64_t key, const ForeignStat& stat, xspace::StatsEncoder* out) {
  switch (stat.type) {
    case ForeignStat::Type::kDouble:
      out->Double(key, stat.number);
      break;
    case ForeignStat::Type::kUint64:
      out->Uint64(key, stat.integer);
      break;
    case ForeignStat::Type::kInt64:
      out->Int64(key, static_cast<int64_t>(stat.integer));
      break;
    case ForeignStat::Type::kString:
      out->String(key, stat.text);
      break;
    case ForeignStat::Type::kBytes:
      out->Bytes(key, stat.text);
      break;
    case ForeignStat::Type::kRef:
      if (const uint64_t text = Text(stat.integer); text != 0) out->Ref(key, text);
      break;
    case ForeignStat::Type::kNone:
      break;
  }
}

void ForeignPlaneNames::Encode(const std::vector<std::string_view>& stats,
                               xspace::StatsEncoder* out) {
  for (const std::string_view bytes : stats) {
    const ForeignStat stat = ReadForeignStat(bytes);
    Encode(Key(stat.metadata_id).id, stat, out);
  }
}

ForeignPlaneNames::EventName ForeignPlaneNames::Event(uint64_t foreign_id) {
  EventName& event = event_names_[foreign_id];
  if (event.id != 0) return event;
  const ForeignEventMetadata metadata = foreign_->EventMetadata(foreign_id);
  xspace::StatsEncoder stats(xspace::StatsOf::kEventMetadata);
  Encode(metadata.stats, &stats);
  event.id = names_->Event(Plane(), metadata.name, metadata.display_name, stats.bytes());
  event.is_compilation = is_host_ && IsCompilation(metadata.name);
  return event;
}

}  // namespace jobscope::framework
