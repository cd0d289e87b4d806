// SPDX-License-Identifier: Apache-2.0
//
// Sites and names of the recorder's dictionary, as metadata of one plane of one session.
#ifndef COLLECTORS_HOST_SITE_TABLE_H_
#define COLLECTORS_HOST_SITE_TABLE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "collectors/host/reader.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/stats.h"

namespace jobscope::host {

// A site, ready to be written. Ids are 0 where the store had no room for them.
struct Site {
  bool complete = false;          // false: an id is 0; the next Find tries again
  uint64_t event_id = 0;          // of its events; of a step: of whole steps
  uint64_t clipped_event_id = 0;  // of events that must not be taken for a whole step
  uint64_t counter_id = 0;        // the stat of a counter's samples
  uint32_t role = JOBSCOPE_ROLE_SCOPE;
  uint32_t key_count = 0;
  uint64_t key_ids[JOBSCOPE_MAX_KEYS] = {};
  uint64_t tf_op_ref = 0;
  std::string stats;  // encoded: what each of its events carries
  std::string name;
  bool named_by_argument = false;  // an NVTX site for all messages: argument 0 is the message
  std::string metadata;            // encoded, of such a site
};

// Stats that the host collector writes itself.
struct CommonStats {
  uint64_t tf_op, r, step_num, clipped_step, truncated, truncated_args, true_start_ns, true_end_ns;
  uint64_t marked_start_ns;
  uint64_t producer_type, producer, consumer_type, consumer, async_id, async_begin, async_end, flow;
};

// Not thread-safe: belongs to the thread that drains. A site costs its first event about 1 us, the
// others an array access.
class SiteTable {
 public:
  SiteTable(const Reader* reader, xspace::Names* names, xspace::PlaneKey plane);

  // Null: the dictionary has no such site.
  const Site* Find(uint32_t id) {
    return id < sites_.size() && sites_[id] != nullptr && sites_[id]->complete ? sites_[id]
                                                                               : Load(id);
  }
  // The stat id that stands for an interned name (for StatsEncoder::Ref); 0: there is none, write
  // the name itself.
  uint64_t NameRef(uint32_t name_id);
  // The stat id that stands for a string that came with an event; 0: write the string itself. A
  // string gets an id when it comes for the second time, and only while the table of strings is
  // within its bounds: ids cost room in every part of a trace.
  uint64_t StringRef(std::string_view text);
  // The event id for a message of a site that is named by its argument; 0: write the message as an
  // argument. The table of them is bounded, too.
  uint64_t EventNamed(const Site& site, std::string_view message);
  // The event that stands in steps without any other.
  uint64_t StepMarkId();
  // The stat id of the argument with this index of the site.
  uint64_t KeyId(const Site& site, uint32_t index);

  // The text of an interned name; empty if there is none.
  std::string_view NameText(uint32_t name_id) const {
    const char* const name = reader_->name(name_id);
    return name == nullptr ? std::string_view() : std::string_view(name);
  }

  const CommonStats& common() const { return common_; }
  xspace::PlaneKey plane() const { return plane_; }

 private:
  const Site* Load(uint32_t id);
  // What a site's category and file say, as stats. Returns what stands for the type of an
  // operation.
  std::string_view DescribePlace(const jobscope_site_info& info, xspace::StatsEncoder* metadata);

  const Reader* const reader_;
  xspace::Names* const names_;
  const xspace::PlaneKey plane_;
  CommonStats common_;
  uint64_t step_mark_id_ = 0;
  std::deque<Site> storage_;                            // stable addresses
  std::vector<Site*> sites_;                            // [site id]
  std::vector<uint64_t> name_refs_;                     // [name id]
  absl::flat_hash_map<std::string, uint64_t> strings_;  // 0: seen once
  size_t string_bytes_ = 0;
  absl::flat_hash_map<std::string, uint64_t> named_events_;  // site's event id, then the message
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_SITE_TABLE_H_
