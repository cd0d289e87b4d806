// SPDX-License-Identifier: Apache-2.0
//
// Declares the part of the interface between NVTX's headers and a tool that is used here: NVTX 3,
// and the shared library of NVTX 2, which has the same tables. Our own declarations, so that no
// NVTX header is needed to build; tests/collectors/nvtx/layout_test.cc compares them with the real
// ones if available.
#ifndef COLLECTORS_NVTX_ABI_H_
#define COLLECTORS_NVTX_ABI_H_

#include <cstddef>
#include <cstdint>

namespace jobscope::nvtx::abi {

// ---- attaching ----

using GetExportTable = const void* (*)(uint32_t id);
inline constexpr uint32_t kCallbacksTable = 1;
inline constexpr uint32_t kVersionTable = 3;

using Function = void (*)();

struct CallbacksTable {
  size_t struct_size;
  // table[id] is where to store the function with that id; table[0] is unused.
  int (*get_module_functions)(uint32_t module, Function*** table, unsigned* size);
};

struct VersionTable {
  size_t struct_size;
  uint32_t version;
  uint32_t reserved;
  void (*set_tool_version)(uint32_t version);
};

inline constexpr uint32_t kModuleCore = 1;
inline constexpr uint32_t kModuleCore2 = 5;

enum Core : uint32_t {
  kMarkEx = 1,
  kMarkA = 2,
  kMarkW = 3,
  kRangeStartEx = 4,
  kRangeStartA = 5,
  kRangeStartW = 6,
  kRangeEnd = 7,
  kRangePushEx = 8,
  kRangePushA = 9,
  kRangePushW = 10,
  kRangePop = 11,
  kNameCategoryA = 12,
  kNameCategoryW = 13,
  kNameOsThreadA = 14,
  kNameOsThreadW = 15,
};

enum Core2 : uint32_t {
  kDomainMarkEx = 1,
  kDomainRangeStartEx = 2,
  kDomainRangeEnd = 3,
  kDomainRangePushEx = 4,
  kDomainRangePop = 5,
  kDomainNameCategoryA = 8,
  kDomainNameCategoryW = 9,
  kDomainRegisterStringA = 10,
  kDomainRegisterStringW = 11,
  kDomainCreateA = 12,
  kDomainCreateW = 13,
  kDomainDestroy = 14,
};

// Returned by push and pop if no tool keeps track.
inline constexpr int kNoTracking = -2;

// ---- events ----

inline constexpr int32_t kColorArgb = 1;

enum MessageType : int32_t {
  kMessageNone = 0,
  kMessageAscii = 1,
  kMessageWide = 2,
  kMessageRegistered = 3,
};

enum PayloadType : int32_t {
  kPayloadNone = 0,
  kPayloadUint64 = 1,
  kPayloadInt64 = 2,
  kPayloadDouble = 3,
  kPayloadUint32 = 4,
  kPayloadInt32 = 5,
  kPayloadFloat = 6,
  // The value is the address of `payload_count` PayloadData.
  kPayloadExtended = static_cast<int32_t>(0xDFBD0009),
};

struct EventAttributes {
  uint16_t version;
  uint16_t size;  // of the caller's struct; later members do not exist
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t payload_count;
  union {
    uint64_t uint64_value;
    int64_t int64_value;
    double double_value;
    uint32_t uint32_value;
    int32_t int32_value;
    float float_value;
  } payload;
  int32_t message_type;
  union {
    const char* ascii;
    const wchar_t* wide;
    const void* registered;
  } message;
};

// ---- extensions ----

struct ExtensionSegment {
  size_t id;
  size_t slot_count;
  intptr_t* slots;
};

struct ExtensionModule {
  uint16_t nvtx_version;
  uint16_t struct_size;
  uint16_t module_id;
  uint16_t compatibility_id;
  size_t segment_count;
  ExtensionSegment* segments;
  intptr_t (*get_export_function)(uint32_t id);
  const void* info;
};

inline constexpr uint16_t kPayloadModule = 2;

enum PayloadSlot : uint32_t {
  kSchemaRegister = 0,
  kEnumRegister = 1,
  kMarkPayload = 2,
  kRangePushPayload = 3,
  kRangePopPayload = 4,
  kRangeStartPayload = 5,
  kRangeEndPayload = 6,
  kDomainIsEnabled = 7,
};

struct PayloadData {
  uint64_t schema_id;
  size_t size;  // SIZE_MAX: given by the schema
  const void* payload;
};

struct SchemaEntry {
  uint64_t flags;
  uint64_t type;
  const char* name;
  const char* description;
  uint64_t array_or_union_detail;
  uint64_t offset;
  const void* semantics;
  const void* reserved;
};

enum SchemaField : uint64_t {
  kSchemaHasName = 1 << 1,
  kSchemaHasType = 1 << 2,
  kSchemaHasFlags = 1 << 3,
  kSchemaHasEntries = 1 << 4,
  kSchemaHasEntryCount = 1 << 5,
  kSchemaHasStaticSize = 1 << 6,
  kSchemaHasAlignment = 1 << 7,
  kSchemaHasId = 1 << 8,
};

struct SchemaAttributes {
  uint64_t field_mask;
  const char* name;
  uint64_t type;
  uint64_t flags;
  const SchemaEntry* entries;
  size_t entry_count;
  size_t static_size;
  size_t alignment;
  uint64_t schema_id;
  const void* extension;
};

enum EnumField : uint64_t {
  kEnumHasSize = 1 << 4,
  kEnumHasId = 1 << 5,
};

struct EnumAttributes {
  uint64_t field_mask;
  const char* name;
  const void* entries;
  size_t entry_count;
  size_t size_of_enum;
  uint64_t schema_id;
  const void* extension;
};

// First id that a tool assigns to schemas without an id.
inline constexpr uint64_t kFirstDynamicSchema = uint64_t{1} << 32;

// Entries with only these flags are plain values in the payload.
inline constexpr uint64_t kEntryDeepCopy = 1 << 8;
inline constexpr uint64_t kEntryHide = 1 << 9;
inline constexpr uint64_t kEntryMessage = 1 << 10;

enum EntryType : uint64_t {
  kEntryChar = 1,
  kEntryUchar = 2,
  kEntryShort = 3,
  kEntryUshort = 4,
  kEntryInt = 5,
  kEntryUint = 6,
  kEntryLong = 7,
  kEntryUlong = 8,
  kEntryLongLong = 9,
  kEntryUlongLong = 10,
  kEntryInt8 = 11,
  kEntryUint8 = 12,
  kEntryInt16 = 13,
  kEntryUint16 = 14,
  kEntryInt32 = 15,
  kEntryUint32 = 16,
  kEntryInt64 = 17,
  kEntryUint64 = 18,
  kEntryFloat = 19,
  kEntryDouble = 20,
  kEntrySize = 22,
  kEntryAddress = 23,
  kEntryByte = 32,
  kEntryFloat32 = 43,
  kEntryFloat64 = 44,
  kEntryCategory = 68,
  kEntryColor = 69,
  kEntryScopeId = 70,
  kEntryPid32 = 71,
  kEntryPid64 = 72,
  kEntryTid32 = 73,
  kEntryTid64 = 74,
  kEntryRegisteredString = 80,
};

}  // namespace jobscope::nvtx::abi

#endif  // COLLECTORS_NVTX_ABI_H_
