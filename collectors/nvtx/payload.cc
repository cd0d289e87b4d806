// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvtx/payload.h"

#include <array>
#include <atomic>
#include <cstring>

#include "collectors/nvtx/table.h"
#include "collectors/nvtx/text.h"

namespace jobscope::nvtx {
namespace {

enum class Kind : uint8_t { kNone, kSigned, kUnsigned, kFloat, kRegisteredString };

struct NumberType {
  Kind kind = Kind::kNone;
  uint8_t bytes = 0;
};

struct Field {
  Kind kind;
  uint8_t bytes;
  uint32_t offset;
  char name[kMaxFieldNameBytes + 1];
};

struct Schema {
  uint64_t hash;
  uint64_t id;
  uint32_t domain;
  bool is_enum;
  uint8_t enum_bytes;
  bool has_message;
  uint32_t message_offset;
  uint32_t field_count;
  size_t static_bytes;  // 0: not given
  std::array<Field, kMaxFields> fields;
  char name[kMaxTextBytes + 1];
};

Table<Schema, kMaxSchemas> g_schemas;
std::atomic<uint64_t> g_next_schema{abi::kFirstDynamicSchema};

// Returns the type on 64-bit Linux, for types whose size the compiler chooses.
NumberType TypeOf(uint64_t entry_type) {
  switch (entry_type) {
    case abi::kEntryChar:
    case abi::kEntryInt8:
      return {Kind::kSigned, 1};
    case abi::kEntryUchar:
    case abi::kEntryUint8:
    case abi::kEntryByte:
      return {Kind::kUnsigned, 1};
    case abi::kEntryShort:
    case abi::kEntryInt16:
      return {Kind::kSigned, 2};
    case abi::kEntryUshort:
    case abi::kEntryUint16:
      return {Kind::kUnsigned, 2};
    case abi::kEntryInt:
    case abi::kEntryInt32:
      return {Kind::kSigned, 4};
    case abi::kEntryUint:
    case abi::kEntryUint32:
    case abi::kEntryCategory:
    case abi::kEntryColor:
    case abi::kEntryPid32:
    case abi::kEntryTid32:
      return {Kind::kUnsigned, 4};
    case abi::kEntryLong:
    case abi::kEntryLongLong:
    case abi::kEntryInt64:
      return {Kind::kSigned, 8};
    case abi::kEntryUlong:
    case abi::kEntryUlongLong:
    case abi::kEntryUint64:
    case abi::kEntrySize:
    case abi::kEntryAddress:
    case abi::kEntryScopeId:
    case abi::kEntryPid64:
    case abi::kEntryTid64:
      return {Kind::kUnsigned, 8};
    case abi::kEntryFloat:
    case abi::kEntryFloat32:
      return {Kind::kFloat, 4};
    case abi::kEntryDouble:
    case abi::kEntryFloat64:
      return {Kind::kFloat, 8};
    case abi::kEntryRegisteredString:
      return {Kind::kRegisteredString, 8};
    default:
      return {};
  }
}

const Schema* FindSchema(uint32_t domain, uint64_t id, uint32_t* index) {
  *index = g_schemas.Find(MixHash(domain, id), [&](const Schema& entry) {
    return entry.id == id && entry.domain == domain;
  });
  return *index == 0 ? nullptr : &g_schemas.At(*index);
}

jobscope_arg Number(Kind kind, uint8_t bytes, const void* from) {
  jobscope_arg arg = {};
  if (kind == Kind::kFloat) {
    arg.type = JOBSCOPE_ARG_DOUBLE;
    if (bytes == 4) {
      float value;
      memcpy(&value, from, sizeof(value));
      arg.value.double_value = value;
    } else {
      memcpy(&arg.value.double_value, from, sizeof(double));
    }
    return arg;
  }
  uint64_t bits = 0;
  memcpy(&bits, from, bytes);
  if (kind == Kind::kUnsigned) {
    arg.type = JOBSCOPE_ARG_UINT64;
    arg.value.uint64_value = bits;
    return arg;
  }
  const int shift = 64 - 8 * bytes;
  arg.type = JOBSCOPE_ARG_INT64;
  arg.value.int64_value = static_cast<int64_t>(bits << shift) >> shift;
  return arg;
}

// Locates the entries' values: at their offsets, or one after the other as a compiler places them.
// The latter ends after an entry of unknown size.
void TakeFields(uint32_t domain, const abi::SchemaEntry* entries, size_t count, Schema* schema) {
  uint64_t next = 0;
  bool next_is_known = true;
  for (size_t i = 0; i < count; ++i) {
    const abi::SchemaEntry& entry = entries[i];
    NumberType type = TypeOf(entry.type);
    uint32_t index = 0;
    const Schema* const other = FindSchema(domain, entry.type, &index);
    if (other != nullptr && other->is_enum) type = {Kind::kSigned, other->enum_bytes};
    constexpr uint64_t kHarmless = abi::kEntryDeepCopy | abi::kEntryHide | abi::kEntryMessage;
    if ((entry.flags & ~kHarmless) != 0) type = {};  // an array, a pointer, a time
    if (entry.offset == 0 && i > 0 && !next_is_known) type = {};
    if (type.kind == Kind::kNone) {
      next_is_known = false;
      continue;
    }
    const uint64_t aligned = (next + type.bytes - 1) / type.bytes * type.bytes;
    const uint64_t offset = entry.offset != 0 || i == 0 ? entry.offset : aligned;
    next = offset + type.bytes;
    next_is_known = true;
    if (offset > UINT32_MAX) continue;
    if (type.kind == Kind::kRegisteredString) {
      if ((entry.flags & abi::kEntryMessage) != 0 && !schema->has_message) {
        schema->has_message = true;
        schema->message_offset = static_cast<uint32_t>(offset);
      }
      continue;
    }
    if ((entry.flags & abi::kEntryHide) != 0 || schema->field_count == kMaxFields) continue;
    Field& field = schema->fields[schema->field_count++];
    field.kind = type.kind;
    field.bytes = type.bytes;
    field.offset = static_cast<uint32_t>(offset);
    Text name;
    name.SetBytes(entry.name == nullptr ? "payload" : entry.name);
    const size_t kept = name.size() < kMaxFieldNameBytes ? name.size() : kMaxFieldNameBytes;
    memcpy(field.name, name.data(), kept);
    field.name[kept] = '\0';
  }
}

uint64_t ChooseId(bool has_id, uint64_t id) {
  return has_id && id != 0 ? id : g_next_schema.fetch_add(1, std::memory_order_relaxed);
}

template <typename Fill>
uint64_t Register(uint32_t domain, uint64_t id, Fill fill) {
  const uint32_t index = g_schemas.FindOrAdd(
      MixHash(domain, id),
      [&](const Schema& entry) { return entry.id == id && entry.domain == domain; },
      [&](Schema* entry) {
        entry->id = id;
        entry->domain = domain;
        fill(entry);
      });
  // Without space the id is still valid, but its payloads are not read.
  return index == 0 ? id : g_schemas.At(index).id;
}

void ReadFields(const Schema& schema, const abi::PayloadData& payload, Numbers* numbers,
                const void** message) {
  const size_t size = payload.size != SIZE_MAX ? payload.size : schema.static_bytes;
  const auto* const bytes = static_cast<const char*>(payload.payload);
  for (uint32_t i = 0; i < schema.field_count; ++i) {
    const Field& field = schema.fields[i];
    jobscope_arg& arg = numbers->values[numbers->count++];
    if (uint64_t{field.offset} + field.bytes > size) {
      arg = {};  // keeps its position among the keys
      continue;
    }
    arg = Number(field.kind, field.bytes, bytes + field.offset);
  }
  while (numbers->count > 0 && numbers->values[numbers->count - 1].type == JOBSCOPE_ARG_NONE) {
    --numbers->count;
  }
  if (message != nullptr && schema.has_message &&
      uint64_t{schema.message_offset} + sizeof(*message) <= size) {
    memcpy(message, bytes + schema.message_offset, sizeof(*message));
  }
}

}  // namespace

uint64_t RegisterSchema(uint32_t domain, const abi::SchemaAttributes* attributes) {
  if (attributes == nullptr) return 0;
  const abi::SchemaAttributes& given = *attributes;
  const auto has = [&](uint64_t field) { return (given.field_mask & field) != 0; };
  const uint64_t id = ChooseId(has(abi::kSchemaHasId), given.schema_id);
  return Register(domain, id, [&](Schema* schema) {
    Text name;
    name.SetBytes(has(abi::kSchemaHasName) ? given.name : nullptr);
    name.CopyTo(schema->name);
    if (has(abi::kSchemaHasStaticSize)) schema->static_bytes = given.static_size;
    if (has(abi::kSchemaHasEntries) && has(abi::kSchemaHasEntryCount) && given.entries != nullptr) {
      TakeFields(domain, given.entries, given.entry_count, schema);
    }
  });
}

uint64_t RegisterEnum(uint32_t domain, const abi::EnumAttributes* attributes) {
  if (attributes == nullptr) return 0;
  const bool has_id = (attributes->field_mask & abi::kEnumHasId) != 0;
  const size_t bytes =
      (attributes->field_mask & abi::kEnumHasSize) != 0 ? attributes->size_of_enum : sizeof(int);
  return Register(domain, ChooseId(has_id, attributes->schema_id), [&](Schema* schema) {
    schema->is_enum = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    schema->enum_bytes = static_cast<uint8_t>(bytes);
  });
}

void ReadPlain(int32_t type, uint64_t bits, Numbers* numbers) {
  NumberType number;
  switch (type) {
    case abi::kPayloadUint64:
      number = {Kind::kUnsigned, 8};
      break;
    case abi::kPayloadInt64:
      number = {Kind::kSigned, 8};
      break;
    case abi::kPayloadDouble:
      number = {Kind::kFloat, 8};
      break;
    case abi::kPayloadUint32:
      number = {Kind::kUnsigned, 4};
      break;
    case abi::kPayloadInt32:
      number = {Kind::kSigned, 4};
      break;
    case abi::kPayloadFloat:
      number = {Kind::kFloat, 4};
      break;
    default:
      return;
  }
  // Little-endian: narrow values lie at the beginning of the union.
  numbers->values[numbers->count++] = Number(number.kind, number.bytes, &bits);
}

void ReadExtended(uint32_t domain, const abi::PayloadData* payloads, size_t count, Numbers* numbers,
                  const void** message) {
  constexpr size_t kMaxPayloads = 16;
  if (payloads == nullptr || count > kMaxPayloads) return;
  for (size_t i = 0; i < count && numbers->count == 0; ++i) {
    const abi::PayloadData& payload = payloads[i];
    if (payload.payload == nullptr) continue;
    const NumberType type = TypeOf(payload.schema_id);
    if (type.kind == Kind::kRegisteredString) continue;
    if (type.kind != Kind::kNone) {
      if (payload.size >= type.bytes) {
        numbers->values[numbers->count++] = Number(type.kind, type.bytes, payload.payload);
      }
      continue;
    }
    uint32_t index = 0;
    const Schema* const schema = FindSchema(domain, payload.schema_id, &index);
    if (schema == nullptr || schema->is_enum) continue;
    numbers->schema = index;
    ReadFields(*schema, payload, numbers, message);
    return;
  }
}

const char* SchemaName(uint32_t schema) { return schema == 0 ? "" : g_schemas.At(schema).name; }

uint32_t FieldNames(uint32_t schema, const char** names) {
  if (schema == 0) {
    names[0] = "payload";
    return 1;
  }
  const Schema& found = g_schemas.At(schema);
  for (uint32_t i = 0; i < found.field_count; ++i) names[i] = found.fields[i].name;
  return found.field_count;
}

}  // namespace jobscope::nvtx
