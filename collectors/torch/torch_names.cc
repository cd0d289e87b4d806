// SPDX-License-Identifier: Apache-2.0
#include "collectors/torch/torch_names.h"

#include <cstdio>
#include <cstring>
#include <new>

#include "collectors/torch/torch_collectives.h"

namespace jobscope::framework::torch {
namespace {

constexpr char kOptimizerStep[] = "Optimizer.step#";
constexpr char kDataLoader[] = "enumerate(DataLoader)#";

bool IsOptimizerStep(Kind kind, const char* name) {
  return kind == Kind::kUser && std::strncmp(name, kOptimizerStep, sizeof(kOptimizerStep) - 1) == 0;
}

// Suffix for collectives whose scope PyTorch ends when they have been queued on the device, not
// when the device is done: the name shows what the duration means.
constexpr char kEnqueue[] = " (enqueue)";

bool EndsAtEnqueue(const char* name) {
  return std::strncmp(name, "nccl:", 5) == 0 || std::strncmp(name, "xccl:", 5) == 0;
}

// Hashes eight bytes at a time: names have about twenty, and temporary ones are hashed each time.
uint64_t Hash(Kind kind, const char* text, size_t length) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
  uint64_t hash = (static_cast<uint64_t>(kind) + 1) * kFactor + length;
  size_t at = 0;
  for (; at + 8 <= length; at += 8) {
    uint64_t word;
    std::memcpy(&word, text + at, 8);
    hash = (hash ^ word) * kFactor;
    hash ^= hash >> 29;
  }
  uint64_t rest = 0;
  std::memcpy(&rest, text + at, length - at);
  hash = (hash ^ rest) * kFactor;
  return hash ^ (hash >> 32);
}

struct KindText {
  const char* general;
  const char* category;
  uint32_t role;
};
constexpr std::array<KindText, kKinds> kTexts = {{
    {"operator", "torch", JOBSCOPE_ROLE_SCOPE},
    {"backward function", "torch_backward", JOBSCOPE_ROLE_SCOPE},
    {"record_function", "record_function", JOBSCOPE_ROLE_SCOPE},
    {"async record_function", "record_function", JOBSCOPE_ROLE_ASYNC},
    {"DataLoader", "record_function", JOBSCOPE_ROLE_INPUT_WAIT},
    {"collective", "collective", JOBSCOPE_ROLE_ASYNC},
}};

}  // namespace

Kind NameSites::KindOfUserScope(const char* name, bool is_async) {
  if (is_async) return IsCollective(name) ? Kind::kCollective : Kind::kAsync;
  const bool waits = std::strncmp(name, kDataLoader, sizeof(kDataLoader) - 1) == 0;
  return waits ? Kind::kInputWait : Kind::kUser;
}

NameSites::NameSites(const struct jobscope_trace_writer_table* writer) : writer_(writer) {
  for (size_t kind = 0; kind < kKinds; ++kind) {
    general_[kind] = SiteOf(static_cast<Kind>(kind), kTexts[kind].general, true);
  }
}

uint32_t NameSites::SiteOf(Kind kind, const char* name, bool name_as_argument) const {
  const KindText& text = kTexts[static_cast<size_t>(kind)];
  std::array<char, kMaxBytes + 1 + sizeof(kEnqueue)> longer;
  if (kind == Kind::kCollective && EndsAtEnqueue(name)) {
    std::snprintf(longer.data(), longer.size(), "%s%s", name, kEnqueue);
    name = longer.data();
  }
  // The file distinguishes the general sites from a program's own of the same name.
  const jobscope_site site = {sizeof(jobscope_site),
                              0,
                              name,
                              text.category,
                              name_as_argument ? "PyTorch" : "",
                              static_cast<uint32_t>(kind),
                              LevelOf(kind),
                              text.role,
                              0};
  if (kind == Kind::kAsync) {
    const char* const keys[] = {"id", "name"};
    return writer_->find_site(&site, keys, name_as_argument ? 2 : 1);
  }
  if (kind == Kind::kCollective) {
    const char* const keys[] = {"id",    "process_group", "sequence", "bytes",
                                "dtype", "group_size",    "name"};
    return writer_->find_site(&site, keys, name_as_argument ? 7 : 6);
  }
  if (kind == Kind::kUser || kind == Kind::kInputWait) {
    const char* const keys[] = {"name"};
    return writer_->find_site(&site, keys, name_as_argument ? 1 : 0);
  }
  // XProf's name for the shapes of an operation.
  const char* const keys[] = {"name", "shape"};
  return writer_->find_site(&site, name_as_argument ? keys : keys + 1, name_as_argument ? 2 : 1);
}

NameSites::Found NameSites::FindByText(Kind kind, const char* name) {
  const Entry* const entry = FindOrAdd(kind, name);
  if (entry == nullptr) {
    return {general_[static_cast<size_t>(kind)], true, IsOptimizerStep(kind, name)};
  }
  ByAddress(name).store(entry, std::memory_order_release);
  return FoundEntry(*entry);
}

const NameSites::Entry* NameSites::FindOrAdd(Kind kind, const char* name) {
  const size_t length = strnlen(name, kMaxBytes);
  const uint64_t hash = Hash(kind, name, length);
  for (size_t probe = 0; probe < kSlots; ++probe) {
    std::atomic<const Entry*>& slot = slots_[(hash + probe) & (kSlots - 1)];
    const Entry* entry = slot.load(std::memory_order_acquire);
    if (entry == nullptr) {
      const Entry* const mine = Add(kind, name, length, hash);
      if (mine == nullptr) return nullptr;
      if (slot.compare_exchange_strong(entry, mine, std::memory_order_acq_rel)) return mine;
      // Another thread was first, with this name or one with the same hash. The recorder identifies
      // names by text, so the site is the same; only the bound has counted one too many.
      delete mine;
    }
    if (entry->hash == hash && entry->kind == kind && entry->length == length &&
        std::memcmp(entry->text, name, length) == 0) {
      return entry;
    }
  }
  return nullptr;
}

const NameSites::Entry* NameSites::Add(Kind kind, const char* name, size_t length, uint64_t hash) {
  const auto index = static_cast<size_t>(kind);
  if (used_[index].load(std::memory_order_relaxed) >= kMaxNames[index]) return nullptr;
  if (used_[index].fetch_add(1, std::memory_order_relaxed) >= kMaxNames[index]) return nullptr;
  auto* const entry = new (std::nothrow) Entry;
  if (entry == nullptr) return nullptr;
  entry->hash = hash;
  entry->length = static_cast<uint32_t>(length);
  entry->kind = kind;
  entry->is_optimizer_step = IsOptimizerStep(kind, name);
  std::memcpy(entry->text, name, length);
  entry->text[length] = '\0';
  entry->site = SiteOf(kind, entry->text, /*name_as_argument=*/false);
  return entry;
}

}  // namespace jobscope::framework::torch
