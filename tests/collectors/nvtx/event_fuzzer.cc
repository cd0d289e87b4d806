// SPDX-License-Identifier: Apache-2.0
//
// What NVTX's callers may hand over: attributes of any size and type, schemas with any entries,
// payloads of any bytes. Nothing outside of what the caller owns is read, and what is made of it
// keeps the recorder's limits. The first byte chooses what the rest is.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "collectors/nvtx/event.h"
#include "collectors/nvtx/payload.h"

namespace {

namespace nvtx = jobscope::nvtx;
namespace abi = jobscope::nvtx::abi;

void Require(bool condition) {
  if (!condition) std::abort();
}

void CheckNumbers(const nvtx::Numbers& numbers) { Require(numbers.count <= nvtx::kMaxFields); }

// The caller's struct ends where it says; texts have an end.
void DescribeAttributes(const uint8_t* data, size_t size) {
  abi::EventAttributes full = {};
  std::memcpy(&full, data, std::min(size, sizeof(full)));
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<wchar_t> wide(data, data + size);
  wide.push_back(0);
  if (full.message_type == abi::kMessageWide) {
    full.message.wide = wide.data();
  } else {
    full.message.ascii = full.message_type == abi::kMessageAscii ? text.c_str() : nullptr;
  }
  if (full.payload_type == abi::kPayloadExtended) full.payload_count = 0;  // its address is made up
  full.size = static_cast<uint16_t>(std::min<size_t>(full.size, sizeof(full)));
  // A copy of exactly what the caller owns: a sanitizer sees a read beyond it. Version and size are
  // always there.
  const size_t owned = std::max<size_t>(full.size, 2 * sizeof(uint16_t));
  std::vector<uint64_t> memory((owned + 7) / 8);
  std::memcpy(memory.data(), &full, owned);
  nvtx::Description description;
  nvtx::Describe(reinterpret_cast<const abi::EventAttributes*>(memory.data()), &description);
  CheckNumbers(description.numbers);
  Require(description.text.size() <= nvtx::kMaxTextBytes);
}

struct Schema {
  uint64_t id = 0;
  size_t size = 0;
};

// At most nvtx::kMaxSchemas of them are kept; after that each is refused.
void Register(const uint8_t* data, size_t size, std::vector<Schema>* schemas) {
  std::vector<abi::SchemaEntry> entries;
  constexpr size_t kEntryBytes = 6;
  for (size_t at = 2; at + kEntryBytes <= size && entries.size() < 64; at += kEntryBytes) {
    abi::SchemaEntry entry = {};
    entry.flags = static_cast<uint64_t>(data[at]) << (data[at + 1] % 12);
    entry.type = data[at + 2];
    entry.name = data[at + 3] == 0 ? nullptr : "name";
    entry.array_or_union_detail = data[at + 4];
    entry.offset = data[at + 5];
    entries.push_back(entry);
  }
  abi::SchemaAttributes attributes = {};
  attributes.field_mask = size > 0 ? data[0] | 1U << 8 : 0;
  attributes.name = "schema";
  attributes.entries = entries.data();
  attributes.entry_count = entries.size();
  attributes.static_size = size > 1 ? data[1] : 0;
  attributes.schema_id = 1000 + schemas->size();
  const uint64_t id = nvtx::RegisterSchema(0, &attributes);
  if (id != 0) schemas->push_back({id, attributes.static_size});
}

void ReadPayload(const uint8_t* data, size_t size, const std::vector<Schema>& schemas) {
  if (schemas.empty() || size == 0) return;
  const Schema& schema = schemas[data[0] % schemas.size()];
  const std::vector<uint8_t> bytes(data + 1, data + size);
  // SIZE_MAX promises that as much is there as the schema says.
  const bool by_schema = schema.size > 0 && bytes.size() >= schema.size;
  const abi::PayloadData payload = {schema.id, by_schema ? SIZE_MAX : bytes.size(), bytes.data()};
  nvtx::Numbers numbers;
  const void* message = nullptr;
  nvtx::ReadExtended(0, &payload, 1, &numbers, &message);
  CheckNumbers(numbers);
  const char* names[nvtx::kMaxFields];
  if (numbers.schema != 0) Require(nvtx::FieldNames(numbers.schema, names) <= nvtx::kMaxFields);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static std::vector<Schema> schemas;
  if (size == 0) return 0;
  switch (data[0] % 3) {
    case 0:
      DescribeAttributes(data + 1, size - 1);
      break;
    case 1:
      Register(data + 1, size - 1, &schemas);
      break;
    default:
      ReadPayload(data + 1, size - 1, schemas);
  }
  return 0;
}
