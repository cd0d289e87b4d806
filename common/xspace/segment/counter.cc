// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/counter.h"

#include "common/xspace/segment/stats.h"

namespace jobscope::xspace {

void Counter::Declare(Names* names, PlaneKey plane, std::string_view name) {
  event_ = names->Event(plane, name);
  stat_ = names->Stat(plane, name);
}

void Counter::AddSample(int64_t at_ps, double value, SegmentBuilder* builder) const {
  StatsEncoder stats(StatsOf::kEvent);
  stats.Double(stat_, value);
  SegmentEvent event;
  event.start_ps = at_ps;
  event.duration_ps = 1;
  event.metadata_id = event_;
  event.stats = stats.bytes();
  builder->Add(event);
}

}  // namespace jobscope::xspace
