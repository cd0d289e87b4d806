// SPDX-License-Identifier: Apache-2.0
#include "analysis/digest/digest_collectives.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

namespace jobscope::analysis {
namespace {

// Returns the index of `text` among the texts of `out`; adds it if necessary.
uint32_t TextIndex(const std::string& text, std::map<std::string, uint32_t>* known,
                   v1::DigestCollectives* out) {
  const auto [entry, added] = known->emplace(text, static_cast<uint32_t>(out->texts_size()));
  if (added) out->add_texts(text);
  return entry->second;
}

}  // namespace

void EncodeCollectives(const std::vector<CollectiveEvent>& collectives,
                       const std::vector<Intervals>& blocked, const std::vector<Interval>& accounts,
                       v1::DigestCollectives* out) {
  std::map<std::string, uint32_t> texts;
  int64_t before_ns = 0;
  for (size_t i = 0; i < collectives.size(); ++i) {
    const CollectiveEvent& collective = collectives[i];
    const Interval& span = collective.call.span;
    out->add_name(TextIndex(collective.name, &texts, out));
    out->add_group(collective.group.empty() ? 0 : TextIndex(collective.group, &texts, out) + 1);
    const bool has_sequence = collective.sequence.has_value() && *collective.sequence >= 0 &&
                              *collective.sequence < INT64_MAX;
    out->add_sequence(has_sequence ? *collective.sequence + 1 : 0);
    out->add_begin_ns(span.begin_ns - before_ns);
    before_ns = span.begin_ns;
    out->add_length_ns(static_cast<uint64_t>(std::max<int64_t>(0, span.length_ns())));
    // The step in whose account it was called. The start decides, because threads of the library
    // may record the end late. Collectives of a step are matched by their order, which says nothing
    // if the process group is unknown.
    const auto account =
        std::lower_bound(accounts.begin(), accounts.end(), span.begin_ns,
                         [](const Interval& a, int64_t time_ns) { return a.end_ns <= time_ns; });
    const bool inside = account != accounts.end() && account->begin_ns <= span.begin_ns;
    out->add_step(inside && !collective.of_unknown_group
                      ? static_cast<uint32_t>(account - accounts.begin()) + 1
                      : 0);
    out->add_bytes(
        collective.bytes.has_value() && *collective.bytes < UINT64_MAX ? *collective.bytes + 1 : 0);
    out->add_members(collective.group_size);
    out->add_blocked(static_cast<uint32_t>(blocked[i].size()));
    for (const Interval& interval : blocked[i]) {
      out->add_blocked_begin_ns(static_cast<uint64_t>(interval.begin_ns - span.begin_ns));
      out->add_blocked_length_ns(static_cast<uint64_t>(interval.length_ns()));
    }
  }
}

}  // namespace jobscope::analysis
