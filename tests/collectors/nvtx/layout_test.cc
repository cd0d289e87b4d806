// SPDX-License-Identifier: Apache-2.0
//
// Our declarations against NVIDIA's headers: this file compiles, or they are wrong. Built only
// where these are (CUDA toolkit 13 and later have all of them).
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "collectors/nvtx/abi.h"

namespace jobscope::nvtx::abi {
namespace {

#define SAME(ours, field, type, their_field) \
  static_assert(offsetof(ours, field) == offsetof(type, their_field))
#define EQUAL(ours, theirs) \
  static_assert(static_cast<int64_t>(ours) == static_cast<int64_t>(theirs))

static_assert(sizeof(EventAttributes) == sizeof(nvtxEventAttributes_t));
SAME(EventAttributes, version, nvtxEventAttributes_t, version);
SAME(EventAttributes, size, nvtxEventAttributes_t, size);
SAME(EventAttributes, category, nvtxEventAttributes_t, category);
SAME(EventAttributes, color_type, nvtxEventAttributes_t, colorType);
SAME(EventAttributes, color, nvtxEventAttributes_t, color);
SAME(EventAttributes, payload_type, nvtxEventAttributes_t, payloadType);
SAME(EventAttributes, payload_count, nvtxEventAttributes_t, reserved0);
SAME(EventAttributes, payload, nvtxEventAttributes_t, payload);
SAME(EventAttributes, message_type, nvtxEventAttributes_t, messageType);
SAME(EventAttributes, message, nvtxEventAttributes_t, message);

EQUAL(kColorArgb, NVTX_COLOR_ARGB);
EQUAL(kMessageAscii, NVTX_MESSAGE_TYPE_ASCII);
EQUAL(kMessageWide, NVTX_MESSAGE_TYPE_UNICODE);
EQUAL(kMessageRegistered, NVTX_MESSAGE_TYPE_REGISTERED);
EQUAL(kPayloadUint64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
EQUAL(kPayloadInt64, NVTX_PAYLOAD_TYPE_INT64);
EQUAL(kPayloadDouble, NVTX_PAYLOAD_TYPE_DOUBLE);
EQUAL(kPayloadUint32, NVTX_PAYLOAD_TYPE_UNSIGNED_INT32);
EQUAL(kPayloadInt32, NVTX_PAYLOAD_TYPE_INT32);
EQUAL(kPayloadFloat, NVTX_PAYLOAD_TYPE_FLOAT);
EQUAL(kPayloadExtended, NVTX_PAYLOAD_TYPE_EXT);
EQUAL(kNoTracking, NVTX_NO_PUSH_POP_TRACKING);

EQUAL(kCallbacksTable, NVTX_ETID_CALLBACKS);
EQUAL(kVersionTable, NVTX_ETID_VERSIONINFO);
EQUAL(kModuleCore, NVTX_CB_MODULE_CORE);
EQUAL(kModuleCore2, NVTX_CB_MODULE_CORE2);
static_assert(sizeof(CallbacksTable) == sizeof(NvtxExportTableCallbacks));
SAME(CallbacksTable, get_module_functions, NvtxExportTableCallbacks, GetModuleFunctionTable);
static_assert(sizeof(VersionTable) == sizeof(NvtxExportTableVersionInfo));
SAME(VersionTable, set_tool_version, NvtxExportTableVersionInfo, SetInjectionNvtxVersion);
static_assert(std::is_same_v<Function***, NvtxFunctionTable*>);

EQUAL(kMarkEx, NVTX_CBID_CORE_MarkEx);
EQUAL(kMarkA, NVTX_CBID_CORE_MarkA);
EQUAL(kMarkW, NVTX_CBID_CORE_MarkW);
EQUAL(kRangeStartEx, NVTX_CBID_CORE_RangeStartEx);
EQUAL(kRangeStartA, NVTX_CBID_CORE_RangeStartA);
EQUAL(kRangeStartW, NVTX_CBID_CORE_RangeStartW);
EQUAL(kRangeEnd, NVTX_CBID_CORE_RangeEnd);
EQUAL(kRangePushEx, NVTX_CBID_CORE_RangePushEx);
EQUAL(kRangePushA, NVTX_CBID_CORE_RangePushA);
EQUAL(kRangePushW, NVTX_CBID_CORE_RangePushW);
EQUAL(kRangePop, NVTX_CBID_CORE_RangePop);
EQUAL(kNameCategoryA, NVTX_CBID_CORE_NameCategoryA);
EQUAL(kNameCategoryW, NVTX_CBID_CORE_NameCategoryW);
EQUAL(kNameOsThreadA, NVTX_CBID_CORE_NameOsThreadA);
EQUAL(kNameOsThreadW, NVTX_CBID_CORE_NameOsThreadW);
EQUAL(kDomainMarkEx, NVTX_CBID_CORE2_DomainMarkEx);
EQUAL(kDomainRangeStartEx, NVTX_CBID_CORE2_DomainRangeStartEx);
EQUAL(kDomainRangeEnd, NVTX_CBID_CORE2_DomainRangeEnd);
EQUAL(kDomainRangePushEx, NVTX_CBID_CORE2_DomainRangePushEx);
EQUAL(kDomainRangePop, NVTX_CBID_CORE2_DomainRangePop);
EQUAL(kDomainNameCategoryA, NVTX_CBID_CORE2_DomainNameCategoryA);
EQUAL(kDomainNameCategoryW, NVTX_CBID_CORE2_DomainNameCategoryW);
EQUAL(kDomainRegisterStringA, NVTX_CBID_CORE2_DomainRegisterStringA);
EQUAL(kDomainRegisterStringW, NVTX_CBID_CORE2_DomainRegisterStringW);
EQUAL(kDomainCreateA, NVTX_CBID_CORE2_DomainCreateA);
EQUAL(kDomainCreateW, NVTX_CBID_CORE2_DomainCreateW);
EQUAL(kDomainDestroy, NVTX_CBID_CORE2_DomainDestroy);

static_assert(sizeof(ExtensionSegment) == sizeof(nvtxExtModuleSegment_t));
SAME(ExtensionSegment, slot_count, nvtxExtModuleSegment_t, slotCount);
SAME(ExtensionSegment, slots, nvtxExtModuleSegment_t, functionSlots);
static_assert(sizeof(ExtensionModule) == sizeof(nvtxExtModuleInfo_t));
SAME(ExtensionModule, struct_size, nvtxExtModuleInfo_t, structSize);
SAME(ExtensionModule, module_id, nvtxExtModuleInfo_t, moduleId);
SAME(ExtensionModule, segment_count, nvtxExtModuleInfo_t, segmentsCount);
SAME(ExtensionModule, segments, nvtxExtModuleInfo_t, segments);
EQUAL(kPayloadModule, NVTX_EXT_PAYLOAD_MODULEID);
EQUAL(kSchemaRegister, NVTX3EXT_CBID_nvtxPayloadSchemaRegister);
EQUAL(kEnumRegister, NVTX3EXT_CBID_nvtxPayloadEnumRegister);
EQUAL(kMarkPayload, NVTX3EXT_CBID_nvtxMarkPayload);
EQUAL(kRangePushPayload, NVTX3EXT_CBID_nvtxRangePushPayload);
EQUAL(kRangePopPayload, NVTX3EXT_CBID_nvtxRangePopPayload);
EQUAL(kRangeStartPayload, NVTX3EXT_CBID_nvtxRangeStartPayload);
EQUAL(kRangeEndPayload, NVTX3EXT_CBID_nvtxRangeEndPayload);
EQUAL(kDomainIsEnabled, NVTX3EXT_CBID_nvtxDomainIsEnabled);

static_assert(sizeof(PayloadData) == sizeof(nvtxPayloadData_t));
SAME(PayloadData, schema_id, nvtxPayloadData_t, schemaId);
SAME(PayloadData, size, nvtxPayloadData_t, size);
SAME(PayloadData, payload, nvtxPayloadData_t, payload);
static_assert(sizeof(SchemaEntry) == sizeof(nvtxPayloadSchemaEntry_t));
SAME(SchemaEntry, flags, nvtxPayloadSchemaEntry_t, flags);
SAME(SchemaEntry, type, nvtxPayloadSchemaEntry_t, type);
SAME(SchemaEntry, name, nvtxPayloadSchemaEntry_t, name);
SAME(SchemaEntry, offset, nvtxPayloadSchemaEntry_t, offset);
static_assert(sizeof(SchemaAttributes) == sizeof(nvtxPayloadSchemaAttr_t));
SAME(SchemaAttributes, field_mask, nvtxPayloadSchemaAttr_t, fieldMask);
SAME(SchemaAttributes, name, nvtxPayloadSchemaAttr_t, name);
SAME(SchemaAttributes, entries, nvtxPayloadSchemaAttr_t, entries);
SAME(SchemaAttributes, entry_count, nvtxPayloadSchemaAttr_t, numEntries);
SAME(SchemaAttributes, static_size, nvtxPayloadSchemaAttr_t, payloadStaticSize);
SAME(SchemaAttributes, schema_id, nvtxPayloadSchemaAttr_t, schemaId);
EQUAL(kSchemaHasName, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME);
EQUAL(kSchemaHasEntries, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES);
EQUAL(kSchemaHasEntryCount, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES);
EQUAL(kSchemaHasStaticSize, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE);
EQUAL(kSchemaHasId, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID);
static_assert(sizeof(EnumAttributes) == sizeof(nvtxPayloadEnumAttr_t));
SAME(EnumAttributes, size_of_enum, nvtxPayloadEnumAttr_t, sizeOfEnum);
SAME(EnumAttributes, schema_id, nvtxPayloadEnumAttr_t, schemaId);
EQUAL(kEnumHasSize, NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE);
EQUAL(kEnumHasId, NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID);
EQUAL(kFirstDynamicSchema, NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
EQUAL(kEntryDeepCopy, NVTX_PAYLOAD_ENTRY_FLAG_DEEP_COPY);
EQUAL(kEntryHide, NVTX_PAYLOAD_ENTRY_FLAG_HIDE);
EQUAL(kEntryMessage, NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE);

EQUAL(kEntryChar, NVTX_PAYLOAD_ENTRY_TYPE_CHAR);
EQUAL(kEntryUchar, NVTX_PAYLOAD_ENTRY_TYPE_UCHAR);
EQUAL(kEntryShort, NVTX_PAYLOAD_ENTRY_TYPE_SHORT);
EQUAL(kEntryUshort, NVTX_PAYLOAD_ENTRY_TYPE_USHORT);
EQUAL(kEntryInt, NVTX_PAYLOAD_ENTRY_TYPE_INT);
EQUAL(kEntryUint, NVTX_PAYLOAD_ENTRY_TYPE_UINT);
EQUAL(kEntryLong, NVTX_PAYLOAD_ENTRY_TYPE_LONG);
EQUAL(kEntryUlong, NVTX_PAYLOAD_ENTRY_TYPE_ULONG);
EQUAL(kEntryLongLong, NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG);
EQUAL(kEntryUlongLong, NVTX_PAYLOAD_ENTRY_TYPE_ULONGLONG);
EQUAL(kEntryInt8, NVTX_PAYLOAD_ENTRY_TYPE_INT8);
EQUAL(kEntryUint8, NVTX_PAYLOAD_ENTRY_TYPE_UINT8);
EQUAL(kEntryInt16, NVTX_PAYLOAD_ENTRY_TYPE_INT16);
EQUAL(kEntryUint16, NVTX_PAYLOAD_ENTRY_TYPE_UINT16);
EQUAL(kEntryInt32, NVTX_PAYLOAD_ENTRY_TYPE_INT32);
EQUAL(kEntryUint32, NVTX_PAYLOAD_ENTRY_TYPE_UINT32);
EQUAL(kEntryInt64, NVTX_PAYLOAD_ENTRY_TYPE_INT64);
EQUAL(kEntryUint64, NVTX_PAYLOAD_ENTRY_TYPE_UINT64);
EQUAL(kEntryFloat, NVTX_PAYLOAD_ENTRY_TYPE_FLOAT);
EQUAL(kEntryDouble, NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE);
EQUAL(kEntrySize, NVTX_PAYLOAD_ENTRY_TYPE_SIZE);
EQUAL(kEntryAddress, NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS);
EQUAL(kEntryByte, NVTX_PAYLOAD_ENTRY_TYPE_BYTE);
EQUAL(kEntryFloat32, NVTX_PAYLOAD_ENTRY_TYPE_FLOAT32);
EQUAL(kEntryFloat64, NVTX_PAYLOAD_ENTRY_TYPE_FLOAT64);
EQUAL(kEntryCategory, NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY);
EQUAL(kEntryColor, NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB);
EQUAL(kEntryScopeId, NVTX_PAYLOAD_ENTRY_TYPE_SCOPE_ID);
EQUAL(kEntryPid32, NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT32);
EQUAL(kEntryPid64, NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT64);
EQUAL(kEntryTid32, NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT32);
EQUAL(kEntryTid64, NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT64);
EQUAL(kEntryRegisteredString, NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE);

TEST(NvtxLayout, Compiles) {}

}  // namespace
}  // namespace jobscope::nvtx::abi
