// SPDX-License-Identifier: Apache-2.0
//
// Encodes the arguments of a record as stats of its event.
#ifndef COLLECTORS_HOST_ENCODING_ARGUMENTS_H_
#define COLLECTORS_HOST_ENCODING_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "collectors/host/encoding/reader.h"
#include "collectors/host/encoding/site_table.h"
#include "common/xspace/segment/stats.h"

namespace jobscope::host {

inline constexpr size_t kBytesPerContinuation = 24;
inline constexpr size_t kMaxStringBytes = 5 * kBytesPerContinuation;

// A group is a record and its continuations.

// Reads the string that begins at group[*at] and moves *at after it. `text` has space for
// kMaxStringBytes.
std::string_view ReadString(const jobscope_record* group, size_t size, size_t* at, char* text);

// Appends a value of JOBSCOPE_ARG_`type`; nothing for a string.
void AddNumber(SiteTable* sites, uint64_t key, uint32_t type, uint64_t value,
               xspace::StatsEncoder* stats);

// Appends the arguments of `group` from the one of index `first` on.
void AddArguments(SiteTable* sites, const Site& site, const jobscope_record* group, size_t size,
                  uint32_t first, xspace::StatsEncoder* stats);

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_ENCODING_ARGUMENTS_H_
