// SPDX-License-Identifier: Apache-2.0
//
// Declares the sites and names of the recorder's dictionary as metadata of one plane of one
// session.
#ifndef COLLECTORS_HOST_ENCODING_SITE_TABLE_H_
#define COLLECTORS_HOST_ENCODING_SITE_TABLE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/host/encoding/reader.h"
#include "common/containers/hash_table.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/stats.h"

namespace jobscope::host {

// A site, ready to be written. Ids are 0 if the store had no space for them.
struct Site {
  bool complete = false;          // false: an id is 0; the next Find tries again
  uint64_t event_id = 0;          // of its events; for a step: of whole steps
  uint64_t clipped_event_id = 0;  // of events that must not look like a whole step
  uint64_t counter_id = 0;        // stat of a counter's samples
  uint32_t role = JOBSCOPE_ROLE_SCOPE;
  uint32_t key_count = 0;
  uint64_t key_ids[JOBSCOPE_MAX_KEYS] = {};
  uint64_t tf_op_ref = 0;
  std::string stats;  // encoded stats of each of its events
  std::string name;
  bool named_by_argument = false;  // an NVTX site for all messages: argument 0 is the message
  std::string metadata;            // encoded metadata of such a site
};

// Stats that the host collector writes itself.
struct CommonStats {
  uint64_t tf_op, r, step_num, clipped_step, truncated, truncated_args, true_start_ns, true_end_ns;
  uint64_t marked_start_ns;
  uint64_t producer_type, producer, consumer_type, consumer, async_id, async_begin, async_end, flow;
};

// Caches what is needed to write events of each site. Not thread-safe: belongs to the thread that
// drains. The first event of a site costs about 1 us, others an array access.
class SiteTable {
 public:
  SiteTable(const Reader* reader, xspace::Names* names, xspace::PlaneKey plane);

  // Returns null if the dictionary has no such site.
  const Site* Find(uint32_t id) {
    return id < sites_.size() && sites_[id] != nullptr && sites_[id]->complete ? sites_[id]
                                                                               : Load(id);
  }
  // Returns whether Find has found the site.
  bool Has(uint32_t id) const { return id < sites_.size() && sites_[id] != nullptr; }
  // Returns the stat id of an interned name, for StatsEncoder::Ref; 0: there is none, write the
  // name itself.
  uint64_t NameRef(uint32_t name_id);
  // Returns the stat id of a string that arrived with an event; 0: write the string itself. A
  // string gets an id at its second occurrence, and only while the table is within its bounds: ids
  // take space in every part of a trace.
  uint64_t StringRef(std::string_view text);
  // Returns the event id for a message of a site that is named by its argument; 0: write the
  // message as an argument. This table is bounded, too.
  uint64_t EventNamed(const Site& site, std::string_view message);
  // Returns the event that marks steps without any other event.
  uint64_t StepMarkId();
  // Returns the stat id of the site's argument with this index.
  uint64_t KeyId(const Site& site, uint32_t index) {
    return index < site.key_count ? site.key_ids[index] : KeyOfIndex(index);
  }

  // Returns the text of an interned name; empty if there is none.
  std::string_view NameText(uint32_t name_id) const {
    const char* const name = reader_->name(name_id);
    return name == nullptr ? std::string_view() : std::string_view(name);
  }

  const CommonStats& common() const { return common_; }
  xspace::PlaneKey plane() const { return plane_; }

 private:
  const Site* Load(uint32_t id);
  uint64_t KeyOfIndex(uint32_t index);  // of an argument without a name
  // Writes a site's category and file as stats. Returns the type of the operation.
  std::string_view DescribePlace(const jobscope_site_info& info, xspace::StatsEncoder* metadata);

  const Reader* const reader_;
  xspace::Names* const names_;
  const xspace::PlaneKey plane_;
  CommonStats common_;
  uint64_t step_mark_id_ = 0;
  std::deque<Site> storage_;                // stable addresses
  std::vector<Site*> sites_;                // [site id]
  std::vector<uint64_t> name_refs_;         // [name id]
  HashMap<std::string, uint64_t> strings_;  // 0: seen once
  size_t string_bytes_ = 0;
  // A loop often passes the same string again: comparing costs a third of hashing.
  std::string newest_string_;
  uint64_t newest_string_ref_ = 0;
  // By the site's event id, then the message.
  HashMap<std::string, uint64_t> named_events_;
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_ENCODING_SITE_TABLE_H_
