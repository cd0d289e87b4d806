// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/events/activity_names.h"

#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace jobscope::cuda {
namespace {

template <size_t n>
std::string_view At(const std::array<std::string_view, n>& names, size_t index) {
  return index < n ? names[index] : names[0];
}

// CUpti_ActivityMemcpyKind
constexpr std::array<std::string_view, 11> kCopies = {
    "Memcpy",     "MemcpyHtoD", "MemcpyDtoH", "MemcpyHtoD", "MemcpyDtoH", "MemcpyDtoD",
    "MemcpyDtoD", "MemcpyDtoD", "MemcpyDtoD", "MemcpyHtoH", "MemcpyDtoD"};
constexpr uint8_t kPeerCopy = 10;

// CUpti_ActivityMemoryKind
constexpr std::array<std::string_view, 8> kMemoryKinds = {
    "unknown", "pageable", "pinned",        "device",
    "array",   "managed",  "device static", "managed static"};

// CUpti_ActivitySynchronizationType
constexpr std::array<std::string_view, 5> kSyncs = {"wait", "wait for an event",
                                                    "stream waits for an event",
                                                    "wait for a stream", "wait for a context"};

// CUpti_ActivityOverheadKind; CUPTI's own ones are multiples of 65536.
constexpr std::array<std::string_view, 9> kOverheads = {"overhead",
                                                        "CUPTI buffer flush",
                                                        "CUPTI instrumentation",
                                                        "CUPTI resource",
                                                        "module loading by the runtime",
                                                        "lazy function loading",
                                                        "command buffer full",
                                                        "CUPTI buffer request",
                                                        "unified memory tracing"};

// CUpti_ActivityUnifiedMemoryCounterKind
constexpr std::array<std::string_view, 9> kUnified = {
    "unified memory", "migration HtoD", "migration DtoH", "CPU page faults", "GPU page faults",
    "thrashing",      "throttling",     "remote map",     "migration DtoD"};

}  // namespace

std::string_view CopyName(uint8_t copy_kind) { return At(kCopies, copy_kind); }

std::string CopyDetails(const Activity& copy) {
  std::string text = absl::StrCat("num_bytes:", copy.bytes,
                                  "\nfrom:", std::string(MemoryKindName(copy.source_memory)),
                                  "\nto:", std::string(MemoryKindName(copy.destination_memory)),
                                  "\nasync:", copy.is_async ? 1 : 0);
  if (copy.sub_kind == kPeerCopy) {
    absl::StrAppend(&text, "\nfrom_device:", copy.peer_source,
                    "\nto_device:", copy.peer_destination);
  }
  return text;
}

std::string SetDetails(const Activity& set) {
  return absl::StrCat("num_bytes:", set.bytes, "\nvalue:", set.call,
                      "\nto:", std::string(MemoryKindName(set.source_memory)),
                      "\nasync:", set.is_async ? 1 : 0);
}

std::string_view MemoryKindName(uint8_t memory_kind) { return At(kMemoryKinds, memory_kind); }

// Managed memory migrates on demand: it does not use up GPU memory.
bool IsMemoryOfTheGpu(uint8_t memory_kind) {
  return memory_kind == 3 || memory_kind == 4 || memory_kind == 6;
}

std::string_view SyncName(uint8_t type) { return At(kSyncs, type); }

std::string_view OverheadName(uint32_t kind) {
  if (kind == 1) return "driver compiler";
  return At(kOverheads, kind >> 16);
}

std::string_view UnifiedMemoryName(uint8_t counter) { return At(kUnified, counter); }

}  // namespace jobscope::cuda
