// SPDX-License-Identifier: Apache-2.0
//
// From what an NVTX call says to what the recorder takes: a site, which stands for message, domain,
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

// Different messages (with their domain, category and colour) that get a site each. The recorder
// has 16,384 places for sites that stand in the code; these come out of them.
inline constexpr uint32_t kMaxSites = 4096;

enum class EventKind : uint32_t { kRange = 0, kMark = 1, kStartEnd = 2 };

// What one call says, as far as it was read.
struct Description {
  uint32_t domain = 0;
  uint32_t category = 0;
  bool has_color = false;
  uint32_t color = 0;
  Text text;
  Numbers numbers;
};

// Reads what lies within the size that the struct claims to have. Null: nothing is said.
void Describe(const abi::EventAttributes* attributes, Description* description);
void DescribePayloads(const abi::PayloadData* payloads, size_t count, Description* description);

struct Event {
  uint32_t site = 0;
  uint32_t arg_count = 0;
  jobscope_arg args[JOBSCOPE_MAX_KEYS];  // strings among them point into the description
};

// The first argument of kStartEnd is left to the caller, for the id.
void MakeEvent(EventKind kind, const Description& description, Event* event);

}  // namespace jobscope::nvtx

#endif  // COLLECTORS_NVTX_EVENT_H_
