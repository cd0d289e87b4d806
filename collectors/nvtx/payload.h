// SPDX-License-Identifier: Apache-2.0
//
// Reads numbers that accompany an event: NVTX's plain payloads, and numeric fields of the extended
// ones (NVTX 3.1 and later).
#ifndef COLLECTORS_NVTX_PAYLOAD_H_
#define COLLECTORS_NVTX_PAYLOAD_H_

#include <cstddef>
#include <cstdint>

#include "collectors/nvtx/abi.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope::nvtx {

inline constexpr uint32_t kMaxSchemas = 256;
// One key less than the recorder's maximum: events that are not scopes need one for their id.
inline constexpr uint32_t kMaxFields = JOBSCOPE_MAX_KEYS - 1;
inline constexpr size_t kMaxFieldNameBytes = 31;

struct Numbers {
  uint32_t schema = 0;  // schema of the fields; 0: none, and at most one number
  uint32_t count = 0;
  jobscope_arg values[kMaxFields];
};

// Registers a schema or enum and returns the id for the application to use; 0: refused.
uint64_t RegisterSchema(uint32_t domain, const abi::SchemaAttributes* attributes);
uint64_t RegisterEnum(uint32_t domain, const abi::EnumAttributes* attributes);

// Reads a payload in the event's attributes. Appends nothing for an unknown type.
void ReadPlain(int32_t type, uint64_t bits, Numbers* numbers);

// Reads the first readable payload. If `message` is not null, it receives the handle of a
// registered string if the schema marks one as the event's message.
void ReadExtended(uint32_t domain, const abi::PayloadData* payloads, size_t count, Numbers* numbers,
                  const void** message);

// Return the schema's name and its fields' names, for the site of such an event.
const char* SchemaName(uint32_t schema);
uint32_t FieldNames(uint32_t schema, const char** names);

}  // namespace jobscope::nvtx

#endif  // COLLECTORS_NVTX_PAYLOAD_H_
