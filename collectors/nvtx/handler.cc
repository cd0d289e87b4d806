// SPDX-License-Identifier: Apache-2.0
//
// Implements the functions that NVTX calls, and fills its tables with them.
#include "collectors/nvtx/handler.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "collectors/nvtx/abi.h"
#include "collectors/nvtx/event.h"
#include "collectors/nvtx/names.h"
#include "collectors/nvtx/payload.h"
#include "collectors/nvtx/range_events.h"
#include "collectors/nvtx/ranges.h"
#include "collectors/nvtx/recorder.h"
#include "collectors/nvtx/text.h"

namespace jobscope::nvtx {
namespace {

constexpr uint32_t kNoMask = 0;
constexpr uint32_t kNvtxVersion = 3;

// ---- operations: describe only what is recorded ----

inline bool NobodyTracks() { return g_tracking.load(std::memory_order_relaxed) == 0; }

template <typename Fill>
inline int Push(const void* domain, Fill fill) {
  if (!Recording()) {
    if (NobodyTracks()) return abi::kNoTracking;
    return PushUnrecorded(DomainOf(domain));
  }
  Description description;
  description.domain = DomainOf(domain);
  fill(&description);
  return PushRange(description);
}

inline int Pop(const void* domain) {
  if (!Recording() && NobodyTracks()) return abi::kNoTracking;
  return PopRange(DomainOf(domain));
}

// Returns 0 if nothing is recorded.
template <typename Fill>
inline uint64_t Start(const void* domain, Fill fill) {
  if (!Recording()) return 0;
  Description description;
  description.domain = DomainOf(domain);
  fill(&description);
  return StartRange(description);
}

template <typename Fill>
inline void Mark(const void* domain, Fill fill) {
  if (!Recording()) return;
  Description description;
  description.domain = DomainOf(domain);
  fill(&description);
  RecordMark(description);
}

// ---- called by NVTX ----

auto From(const abi::EventAttributes* attributes) {
  return [attributes](Description* description) { Describe(attributes, description); };
}
auto From(const char* message) {
  return [message](Description* description) { description->text.SetBytes(message); };
}
auto From(const wchar_t* message) {
  return [message](Description* description) { description->text.SetWide(message); };
}
auto From(const abi::PayloadData* payloads, size_t count) {
  return [=](Description* description) { DescribePayloads(payloads, count, description); };
}

void MarkEx(const abi::EventAttributes* attributes) { Mark(nullptr, From(attributes)); }
void MarkA(const char* message) { Mark(nullptr, From(message)); }
void MarkW(const wchar_t* message) { Mark(nullptr, From(message)); }
uint64_t RangeStartEx(const abi::EventAttributes* attributes) {
  return Start(nullptr, From(attributes));
}
uint64_t RangeStartA(const char* message) { return Start(nullptr, From(message)); }
uint64_t RangeStartW(const wchar_t* message) { return Start(nullptr, From(message)); }
int RangePushEx(const abi::EventAttributes* attributes) { return Push(nullptr, From(attributes)); }
int RangePushA(const char* message) { return Push(nullptr, From(message)); }
int RangePushW(const wchar_t* message) { return Push(nullptr, From(message)); }
int RangePop() { return Pop(nullptr); }

void DomainMarkEx(const void* domain, const abi::EventAttributes* attributes) {
  Mark(domain, From(attributes));
}
uint64_t DomainRangeStartEx(const void* domain, const abi::EventAttributes* attributes) {
  return Start(domain, From(attributes));
}
void DomainRangeEnd(const void* /*domain*/, uint64_t id) { EndRange(id); }
int DomainRangePushEx(const void* domain, const abi::EventAttributes* attributes) {
  return Push(domain, From(attributes));
}
int DomainRangePop(const void* domain) { return Pop(domain); }

// Names are stored even while nothing is recorded: they arrive only once.

template <typename Character>
void SetText(const Character* given, Text* text) {
  if constexpr (sizeof(Character) == 1) {
    text->SetBytes(given);
  } else {
    text->SetWide(given);
  }
}

template <typename Character>
void DomainNameCategory(const void* domain, uint32_t category, const Character* name) {
  Text text;
  SetText(name, &text);
  NameCategory(DomainOf(domain), category, text);
}
template <typename Character>
void DefaultNameCategory(uint32_t category, const Character* name) {
  DomainNameCategory(nullptr, category, name);
}

// Only for the calling thread: the recorder cannot name another one.
template <typename Character>
void NameOsThread(uint32_t tid, const Character* name) {
  if (name == nullptr || tid != static_cast<uint32_t>(syscall(SYS_gettid))) return;
  Text text;
  SetText(name, &text);
  char terminated[kMaxTextBytes + 1];
  text.CopyTo(terminated);
  Writer()->set_thread_name(terminated);
}

template <typename Character>
const void* DomainRegisterString(const void* /*domain*/, const Character* string) {
  Text text;
  SetText(string, &text);
  return RegisterString(text);
}

template <typename Character>
const void* DomainCreate(const Character* name) {
  Text text;
  SetText(name, &text);
  return CreateDomain(text);
}

// Handles stay valid: later uses still refer to the domain.
void DomainDestroy(const void* /*domain*/) {}

uint64_t SchemaRegister(const void* domain, const abi::SchemaAttributes* attributes) {
  return RegisterSchema(DomainOf(domain), attributes);
}
uint64_t EnumRegister(const void* domain, const abi::EnumAttributes* attributes) {
  return RegisterEnum(DomainOf(domain), attributes);
}
void MarkPayload(const void* domain, const abi::PayloadData* payloads, size_t count) {
  Mark(domain, From(payloads, count));
}
int RangePushPayload(const void* domain, const abi::PayloadData* payloads, size_t count) {
  return Push(domain, From(payloads, count));
}
int RangePopPayload(const void* domain, const abi::PayloadData* /*payloads*/, size_t /*count*/) {
  return Pop(domain);
}
uint64_t RangeStartPayload(const void* domain, const abi::PayloadData* payloads, size_t count) {
  return Start(domain, From(payloads, count));
}
void RangeEndPayload(const void* /*domain*/, uint64_t id, const abi::PayloadData* /*payloads*/,
                     size_t /*count*/) {
  EndRange(id);
}
// Always true, also while nothing is recorded: the caller may cache the answer.
uint8_t DomainIsEnabled(const void* /*domain*/) { return 1; }

// ---- tables ----

struct Entry {
  uint32_t id;
  abi::Function function;
};

template <typename Pointer>
Entry Make(uint32_t id, Pointer function) {
  return {id, reinterpret_cast<abi::Function>(function)};
}

bool Fill(const abi::CallbacksTable& callbacks, uint32_t module, const Entry* entries,
          size_t count) {
  abi::Function** table = nullptr;
  unsigned size = 0;
  if (callbacks.get_module_functions(module, &table, &size) == 0 || table == nullptr) return false;
  for (size_t i = 0; i < count; ++i) {
    // An older NVTX has fewer functions.
    if (entries[i].id < size && table[entries[i].id] != nullptr) {
      *table[entries[i].id] = entries[i].function;
    }
  }
  return true;
}

bool FillCore(const abi::CallbacksTable& callbacks) {
  const Entry entries[] = {
      Make(abi::kMarkEx, &MarkEx),
      Make(abi::kMarkA, &MarkA),
      Make(abi::kMarkW, &MarkW),
      Make(abi::kRangeStartEx, &RangeStartEx),
      Make(abi::kRangeStartA, &RangeStartA),
      Make(abi::kRangeStartW, &RangeStartW),
      Make(abi::kRangeEnd, &EndRange),
      Make(abi::kRangePushEx, &RangePushEx),
      Make(abi::kRangePushA, &RangePushA),
      Make(abi::kRangePushW, &RangePushW),
      Make(abi::kRangePop, &RangePop),
      Make(abi::kNameCategoryA, &DefaultNameCategory<char>),
      Make(abi::kNameCategoryW, &DefaultNameCategory<wchar_t>),
      Make(abi::kNameOsThreadA, &NameOsThread<char>),
      Make(abi::kNameOsThreadW, &NameOsThread<wchar_t>),
  };
  return Fill(callbacks, abi::kModuleCore, entries, sizeof(entries) / sizeof(entries[0]));
}

bool FillCore2(const abi::CallbacksTable& callbacks) {
  const Entry entries[] = {
      Make(abi::kDomainMarkEx, &DomainMarkEx),
      Make(abi::kDomainRangeStartEx, &DomainRangeStartEx),
      Make(abi::kDomainRangeEnd, &DomainRangeEnd),
      Make(abi::kDomainRangePushEx, &DomainRangePushEx),
      Make(abi::kDomainRangePop, &DomainRangePop),
      Make(abi::kDomainNameCategoryA, &DomainNameCategory<char>),
      Make(abi::kDomainNameCategoryW, &DomainNameCategory<wchar_t>),
      Make(abi::kDomainRegisterStringA, &DomainRegisterString<char>),
      Make(abi::kDomainRegisterStringW, &DomainRegisterString<wchar_t>),
      Make(abi::kDomainCreateA, &DomainCreate<char>),
      Make(abi::kDomainCreateW, &DomainCreate<wchar_t>),
      Make(abi::kDomainDestroy, &DomainDestroy),
  };
  return Fill(callbacks, abi::kModuleCore2, entries, sizeof(entries) / sizeof(entries[0]));
}

bool Prepare(const WriterTable* writer) {
  if (writer == nullptr || !PrepareThreads()) return false;
  g_writer.store(writer, std::memory_order_relaxed);
  g_mask.store(writer->mask, std::memory_order_release);
  return true;
}

}  // namespace

std::atomic<const uint32_t*> g_mask{&kNoMask};
std::atomic<const WriterTable*> g_writer{nullptr};

bool Attach(const WriterTable* writer, void* get_export_table) {
  const auto get = reinterpret_cast<abi::GetExportTable>(get_export_table);
  if (get == nullptr || !Prepare(writer)) return false;
  const auto* const callbacks = static_cast<const abi::CallbacksTable*>(get(abi::kCallbacksTable));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(*callbacks)) return false;
  const auto* const version = static_cast<const abi::VersionTable*>(get(abi::kVersionTable));
  if (version != nullptr && version->struct_size >= sizeof(*version) &&
      version->set_tool_version != nullptr) {
    version->set_tool_version(kNvtxVersion);
  }
  const bool core = FillCore(*callbacks);
  const bool core2 = FillCore2(*callbacks);
  return core || core2;
}

bool AttachExtension(const WriterTable* writer, void* module) {
  const auto* const info = static_cast<const abi::ExtensionModule*>(module);
  if (info == nullptr || info->struct_size < sizeof(*info) || info->segments == nullptr ||
      info->segment_count == 0 || info->module_id != abi::kPayloadModule || !Prepare(writer)) {
    return false;
  }
  const abi::ExtensionSegment& segment = info->segments[0];
  const Entry entries[] = {
      Make(abi::kSchemaRegister, &SchemaRegister),
      Make(abi::kEnumRegister, &EnumRegister),
      Make(abi::kMarkPayload, &MarkPayload),
      Make(abi::kRangePushPayload, &RangePushPayload),
      Make(abi::kRangePopPayload, &RangePopPayload),
      Make(abi::kRangeStartPayload, &RangeStartPayload),
      Make(abi::kRangeEndPayload, &RangeEndPayload),
      Make(abi::kDomainIsEnabled, &DomainIsEnabled),
  };
  for (const Entry& entry : entries) {
    if (entry.id < segment.slot_count) {
      segment.slots[entry.id] = reinterpret_cast<intptr_t>(entry.function);
    }
  }
  return true;
}

}  // namespace jobscope::nvtx
