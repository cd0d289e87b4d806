// SPDX-License-Identifier: Apache-2.0
//
// Gives the names of a foreign plane ids of the session.
#ifndef COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_NAMES_H_
#define COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_NAMES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectors/xspace_import/foreign_xspace_reader.h"
#include "common/containers/hash_table.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/stats.h"

namespace jobscope::framework {

// Translates the ids of one foreign plane. Declares a name at its first use; what a full store
// refuses to declare has the id 0, and is declared at its next use: planes, stats and events.
class ForeignPlaneNames {
 public:
  struct StatKey {
    uint64_t id = 0;
    enum { kPlain, kRoot, kStepNumber, kLeftOut } kind = kPlain;
  };
  struct EventName {
    uint64_t id = 0;
    bool is_compilation = false;
  };

  // `names` and `foreign` must outlive this.
  ForeignPlaneNames(xspace::Names* names, const ForeignPlane* foreign);

  bool is_host() const { return is_host_; }

  xspace::PlaneKey Plane();
  // Returns the id of a stat's name.
  uint64_t Stat(std::string_view name);
  // Translates the key of a foreign stat.
  StatKey Key(uint64_t foreign_id);
  EventName Event(uint64_t foreign_id);

  // Encodes one stat under a key of the session.
  void Encode(uint64_t key, const ForeignStat& stat, xspace::StatsEncoder* out);
  // Encodes serialized XStats that need no special treatment.
  void Encode(const std::vector<std::string_view>& stats, xspace::StatsEncoder* out);

 private:
  struct StatName {
    StatKey as_key;
    uint64_t as_text = 0;
  };

  uint64_t Text(uint64_t foreign_id);

  xspace::Names* const names_;
  const ForeignPlane* const foreign_;
  const bool is_host_;
  xspace::PlaneKey plane_ = 0;
  HashMap<uint64_t, StatName> stats_by_id_;
  HashMap<uint64_t, EventName> event_names_;
};

}  // namespace jobscope::framework

#endif  // COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_NAMES_H_
