// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing/state_log.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/libraries/result_text.h"

namespace jobscope::cuda {

StateLog& StateLog::Get() {
  static auto* const log = new StateLog;
  return *log;
}

StateLog::Entry* StateLog::EntryOf(uint64_t key, const char* message) {
  for (Entry& entry : entries_) {
    uint64_t found = entry.key.load(std::memory_order_acquire);
    if (found == 0 && entry.key.compare_exchange_strong(found, key, std::memory_order_acq_rel)) {
      if (message != nullptr) std::strncpy(entry.text, message, sizeof(entry.text) - 1);
      entry.written.store(true, std::memory_order_release);
      return &entry;
    }
    if (found == key) return &entry;
  }
  return nullptr;
}

void StateLog::OnCallback(uint32_t cbid, const void* data) {
  if (data == nullptr || cbid < kStateFatalError || cbid > kStateWarning) return;
  const auto* const state = static_cast<const StateNotification*>(data);
  const auto result = static_cast<uint32_t>(state->result);
  Entry* const entry = EntryOf(uint64_t{cbid} << 32 | result, state->message);
  if (entry != nullptr) entry->count.fetch_add(1, std::memory_order_relaxed);
  if (cbid != kStateFatalError) {
    if (entry == nullptr) other_kinds_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const Entry* none = nullptr;
  (void)fatal_entry_.compare_exchange_strong(none, entry, std::memory_order_acq_rel);
  fatal_.store(true, std::memory_order_release);
}

std::string StateLog::Words(const Entry& entry) {
  const auto result = static_cast<int32_t>(entry.key.load(std::memory_order_acquire) & UINT32_MAX);
  const ResultText* const known = FindResultText(result);
  return absl::StrCat(entry.written.load(std::memory_order_acquire) ? entry.text : "", " (", result,
                      known == nullptr ? "" : " ", known == nullptr ? "" : std::string(known->name),
                      ")");
}

std::vector<std::string> StateLog::Take() {
  std::vector<std::string> texts;
  for (Entry& entry : entries_) {
    const uint64_t count = entry.count.exchange(0, std::memory_order_relaxed);
    const uint64_t cbid = entry.key.load(std::memory_order_acquire) >> 32;
    if (count == 0 || cbid == kStateFatalError) continue;
    texts.push_back(absl::StrCat("CUPTI reports ", cbid == kStateWarning ? "a warning" : "an error",
                                 ": ", Words(entry),
                                 count == 1 ? "" : absl::StrCat(", ", count, " times")));
  }
  if (const uint64_t count = other_kinds_.exchange(0, std::memory_order_relaxed); count > 0) {
    texts.push_back(absl::StrCat("CUPTI reports ", count, " errors or warnings of further kinds"));
  }
  return texts;
}

std::string StateLog::fatal_text() {
  const Entry* const entry = fatal_entry_.load(std::memory_order_acquire);
  if (!fatal_.load(std::memory_order_acquire)) return "";
  return absl::StrCat("CUPTI has failed", entry == nullptr ? "" : ": ",
                      entry == nullptr ? "" : Words(*entry));
}

void StateLog::Clear() {
  for (Entry& entry : entries_) entry.count.store(0, std::memory_order_relaxed);
  other_kinds_.store(0, std::memory_order_relaxed);
  fatal_entry_.store(nullptr, std::memory_order_release);
  fatal_.store(false, std::memory_order_release);
}

}  // namespace jobscope::cuda
