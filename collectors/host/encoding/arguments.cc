// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/encoding/arguments.h"

#include <algorithm>
#include <cstring>

namespace jobscope::host {

std::string_view ReadString(const jobscope_record* group, size_t size, size_t* at, char* text) {
  const uint32_t index = group[*at].depth;
  const size_t length = std::min<size_t>(group[*at].site, kMaxStringBytes);
  size_t copied = 0;
  do {
    const jobscope_record& part = group[*at];
    std::memcpy(text + copied, &part.begin_ticks, 8);
    std::memcpy(text + copied + 8, &part.end_ticks, 8);
    std::memcpy(text + copied + 16, &part.arg, 8);
    copied += kBytesPerContinuation;
    ++*at;
  } while (copied < length && *at < size && group[*at].depth == index);
  return {text, std::min(length, copied)};
}

void AddNumber(SiteTable* sites, uint64_t key, uint32_t type, uint64_t value,
               xspace::StatsEncoder* stats) {
  switch (type) {
    case JOBSCOPE_ARG_INT64:
      stats->Int64(key, static_cast<int64_t>(value));
      break;
    case JOBSCOPE_ARG_UINT64:
      stats->Uint64(key, value);
      break;
    case JOBSCOPE_ARG_DOUBLE: {
      double number;
      std::memcpy(&number, &value, sizeof(number));
      stats->Double(key, number);
      break;
    }
    case JOBSCOPE_ARG_NAME:
      if (const uint64_t ref = sites->NameRef(static_cast<uint32_t>(value)); ref != 0) {
        stats->Ref(key, ref);
      } else {
        stats->String(key, sites->NameText(static_cast<uint32_t>(value)));
      }
      break;
    default:
      break;
  }
}

void AddArguments(SiteTable* sites, const Site& site, const jobscope_record* group, size_t size,
                  uint32_t first, xspace::StatsEncoder* stats) {
  const uint32_t main_type = JOBSCOPE_FLAGS_ARG_TYPE(group->flags);
  if (first == 0 && main_type != JOBSCOPE_ARG_NONE && main_type != JOBSCOPE_ARG_STRING) {
    AddNumber(sites, sites->KeyId(site, 0), main_type, group->arg, stats);
  }
  for (size_t i = 1; i < size;) {
    const jobscope_record& record = group[i];
    const uint32_t index = record.depth;
    const uint32_t type = JOBSCOPE_FLAGS_ARG_TYPE(record.flags);
    if (type != JOBSCOPE_ARG_STRING) {
      if (index >= first) AddNumber(sites, sites->KeyId(site, index), type, record.arg, stats);
      ++i;
      continue;
    }
    char text[kMaxStringBytes];
    const std::string_view value = ReadString(group, size, &i, text);
    if (index < first) continue;
    const uint64_t key = sites->KeyId(site, index);
    if (const uint64_t ref = sites->StringRef(value); ref != 0) {
      stats->Ref(key, ref);
    } else {
      stats->String(key, value);
    }
  }
  if ((group->flags & JOBSCOPE_FLAG_CUT) != 0) stats->Int64(sites->common().truncated_args, 1);
}

}  // namespace jobscope::host
