// SPDX-License-Identifier: Apache-2.0
//
// Numbers that come with an event: NVTX's plain payloads, and of the extended ones (NVTX 3.1 and
// later) the fields that are numbers.
#ifndef COLLECTORS_NVTX_PAYLOAD_H_
#define COLLECTORS_NVTX_PAYLOAD_H_

#include <cstddef>
#include <cstdint>

#include "collectors/nvtx/abi.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope::nvtx {

inline constexpr uint32_t kMaxSchemas = 256;
// One key less than the recorder takes: events that are no scopes need one for their id.
inline constexpr uint32_t kMaxFields = JOBSCOPE_MAX_KEYS - 1;
inline constexpr size_t kMaxFieldNameBytes = 31;

struct Numbers {
  uint32_t schema = 0;  // whose fields they are; 0: none's, there is one number at most
  uint32_t count = 0;
  jobscope_arg values[kMaxFields];
};

// Returns the id that the application is to use for the schema; 0: refused.
uint64_t RegisterSchema(uint32_t domain, const abi::SchemaAttributes* attributes);
uint64_t RegisterEnum(uint32_t domain, const abi::EnumAttributes* attributes);

// A payload that stands in the event's attributes. Appends nothing for a type that is not known.
void ReadPlain(int32_t type, uint64_t bits, Numbers* numbers);

// The first of the payloads that can be read. `message`, if not null, becomes the handle of a
// registered string where the schema says that one is the event's message.
void ReadExtended(uint32_t domain, const abi::PayloadData* payloads, size_t count, Numbers* numbers,
                  const void** message);

// For the site of such an event: the schema's name, and those of its fields.
const char* SchemaName(uint32_t schema);
uint32_t FieldNames(uint32_t schema, const char** names);

}  // namespace jobscope::nvtx

#endif  // COLLECTORS_NVTX_PAYLOAD_H_
