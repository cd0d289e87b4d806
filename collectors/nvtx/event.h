// SPDX-License-Identifier: Apache-2.0
//
// Converts an NVTX call into what the recorder takes: a site, which stands for message, domain,
// category and colour, and arguments.
#ifndef COLLECTORS_NVTX_EVENT_H_
#define COLLECTORS_NVTX_EVENT_H_

#include <cstddef>
#include <cstdint>

#include "collectors/nvtx/abi.h"
#include "collectors/nvtx/payload.h"
#include "collectors/nvtx/text.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope::nvtx {

// Maximum number of messages (with domain, category and colour) that get a site each. They come out
// of the recorder's 16,384 sites, which also serve the sites in code.
inline constexpr uint32_t kMaxSites = 4096;

enum class EventKind : uint32_t { kRange = 0, kMark = 1, kStartEnd = 2 };

// Describes one call, as far as it could be read.
struct Description {
  uint32_t domain = 0;
  uint32_t category = 0;
  bool has_color = false;
  uint32_t color = 0;
  Text text;
  Numbers numbers;
};

// Reads what lies within the size that the struct declares. Null: leaves the description empty.
void Describe(const abi::EventAttributes* attributes, Description* description);
void DescribePayloads(const abi::PayloadData* payloads, size_t count, Description* description);

struct Event {
  uint32_t site = 0;
  uint32_t arg_count = 0;
  jobscope_arg args[JOBSCOPE_MAX_KEYS];  // strings point into the description
};

// Leaves the first argument of kStartEnd to the caller, for the id.
void MakeEvent(EventKind kind, const Description& description, Event* event);

}  // namespace jobscope::nvtx

#endif  // COLLECTORS_NVTX_EVENT_H_
