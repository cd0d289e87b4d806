// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/recorder/dictionary.h"

#include <string.h>
#include <sys/mman.h>

#include <atomic>

#include "collectors/host/recorder/process.h"
#include "collectors/host/recorder/registry.h"

namespace jobscope::recorder {
namespace {

struct SiteEntry {
  std::atomic<uint32_t> ready;
  uint32_t hash;
  uint32_t line;
  uint32_t bit;
  uint32_t role;
  uint32_t key_count;
  char name[kMaxNameBytes];
  char file[kMaxFileBytes];
  char category[kMaxCategoryBytes];
  char keys[JOBSCOPE_MAX_KEYS][kMaxKeyBytes];
};

struct NameEntry {
  std::atomic<uint32_t> ready;
  uint32_t hash;
  char text[kMaxNameBytes];
};

// A lock-free table of entries with a hash index. An entry is filled before its index is published;
// two threads that add the same entry at once agree by compare-and-swap on the slot, and the
// loser's entry waits in a stash for the next insertion.
template <typename Entry, uint32_t kEntries, uint32_t kSlots>
class Table {
  static_assert((kSlots & (kSlots - 1)) == 0 && kSlots >= 2 * kEntries);

 public:
  // Returns index + 1 of the entry that `equals`, else of a new one filled by `fill`; 0 when full.
  template <typename Equals, typename Fill>
  uint32_t FindOrAdd(uint32_t hash, Equals equals, Fill fill) {
    uint32_t mine = 0;
    for (uint32_t probe = 0; probe < kSlots; ++probe) {
      std::atomic<uint32_t>& slot = slots_[(hash + probe) & (kSlots - 1)];
      uint32_t found = slot.load(std::memory_order_acquire);
      if (found == 0) {
        if (mine == 0) {
          mine = Allocate();
          if (mine == 0) return 0;
          Entry& entry = entries_[mine - 1];
          fill(&entry);
          entry.hash = hash;
          entry.ready.store(1, std::memory_order_release);
        }
        if (slot.compare_exchange_strong(found, mine, std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
          return mine;
        }
      }
      const Entry& entry = entries_[found - 1];
      if (entry.hash == hash && equals(entry)) {
        if (mine != 0) Stash(mine);
        return found;
      }
    }
    return 0;
  }

  // Returns nullptr when there is none.
  const Entry* At(uint32_t id) const {
    if (id == 0 || id > kEntries) return nullptr;
    const Entry& entry = entries_[id - 1];
    return entry.ready.load(std::memory_order_acquire) != 0 ? &entry : nullptr;
  }

 private:
  uint32_t Allocate() {
    for (std::atomic<uint32_t>& stashed : stash_) {
      if (stashed.load(std::memory_order_relaxed) == 0) continue;
      if (const uint32_t id = stashed.exchange(0, std::memory_order_acquire)) return id;
    }
    uint32_t used = used_.load(std::memory_order_relaxed);
    do {
      if (used >= kEntries) return 0;
    } while (!used_.compare_exchange_weak(used, used + 1, std::memory_order_relaxed));
    return used + 1;
  }

  void Stash(uint32_t id) {
    entries_[id - 1].ready.store(0, std::memory_order_relaxed);
    for (std::atomic<uint32_t>& stashed : stash_) {
      uint32_t none = 0;
      if (stashed.compare_exchange_strong(none, id, std::memory_order_release)) return;
    }
  }

  std::atomic<uint32_t> used_;
  std::atomic<uint32_t> stash_[64];
  std::atomic<uint32_t> slots_[kSlots];
  Entry entries_[kEntries];
};

// Zero pages until they are used, so they only cost address space.
struct Dictionary {
  Table<SiteEntry, kMaxStaticSites, 2 * kMaxStaticSites> static_sites;
  Table<SiteEntry, kMaxDynamicSites, 2 * kMaxDynamicSites> dynamic_sites;
  Table<NameEntry, kMaxNames, 2 * kMaxNames> names;
};

std::atomic<Dictionary*> g_dictionary{nullptr};

constexpr uint32_t kFirstStaticId = JOBSCOPE_SITE_WITHOUT_A_NAME + 1;
constexpr uint32_t kFirstDynamicId = kFirstStaticId + kMaxStaticSites;

// After a failed allocation of the dictionary, one in this many calls retries it: otherwise each
// event of the application would make a system call.
constexpr uint32_t kCallsPerTry = 1024;
std::atomic<uint32_t> g_calls_to_skip{0};

// Returns nullptr when there is no memory.
Dictionary* Get() {
  Dictionary* dictionary = g_dictionary.load(std::memory_order_acquire);
  if (dictionary != nullptr) return dictionary;
  uint32_t skip = g_calls_to_skip.load(std::memory_order_relaxed);
  if (skip > 0) {
    g_calls_to_skip.compare_exchange_strong(skip, skip - 1, std::memory_order_relaxed);
    return nullptr;
  }
  const KeepErrno keep_errno;
  void* memory = mmap(nullptr, sizeof(Dictionary), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    g_calls_to_skip.store(kCallsPerTry - 1, std::memory_order_relaxed);
    return nullptr;
  }
  auto* mapped = static_cast<Dictionary*>(memory);
  if (g_dictionary.compare_exchange_strong(dictionary, mapped, std::memory_order_acq_rel,
                                           std::memory_order_acquire)) {
    return mapped;
  }
  munmap(memory, sizeof(Dictionary));
  return dictionary;
}

constexpr uint32_t kHashSeed = 2166136261u;
uint32_t Hash(uint32_t hash, const char* bytes, size_t length) {
  for (size_t i = 0; i < length; ++i) {
    hash = (hash ^ static_cast<unsigned char>(bytes[i])) * 16777619u;
  }
  return hash ^ (hash >> 15);
}

// A string cut between characters to the length that an entry keeps, without its terminator.
struct Piece {
  const char* text;
  size_t length;
};
// Returns how many of the first `length` bytes of `text`, which is longer, to keep so that no
// character of UTF-8 is divided.
size_t CharacterEnd(const char* text, size_t length) {
  size_t end = length;
  while (length - end < 3 && end > 0 && (text[end] & 0xc0) == 0x80) --end;
  return end;
}
// `length`: of a text that need not be terminated.
Piece Front(const char* text, uint32_t room, size_t length = SIZE_MAX) {
  if (text == nullptr) return {"", 0};
  const size_t found = strnlen(text, length < room ? length : room);
  return {text, found < room ? found : CharacterEnd(text, room - 1)};
}
Piece Back(const char* text, uint32_t room) {
  if (text == nullptr) return {"", 0};
  const size_t length = strlen(text);
  if (length < room) return {text, length};
  const char* begin = text + (length - (room - 1));
  for (int part = 0; part < 3 && (*begin & 0xc0) == 0x80; ++part) ++begin;
  return {begin, static_cast<size_t>(text + length - begin)};
}
bool Same(const char* stored, const Piece& piece) {
  return memcmp(stored, piece.text, piece.length) == 0 && stored[piece.length] == '\0';
}
void Copy(char* to, const Piece& piece) {
  memcpy(to, piece.text, piece.length);
  to[piece.length] = '\0';
}

uint32_t Refuse() {
  g_counters.dictionary_full.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

}  // namespace

uint32_t FindOrAddSite(const jobscope_site& site, const char* const* keys, uint32_t key_count,
                       bool dynamic) {
  Dictionary* dictionary = Get();
  if (dictionary == nullptr) {
    Refuse();
    return JOBSCOPE_SITE_WITHOUT_A_NAME;
  }
  const Piece name = Front(site.name, kMaxNameBytes);
  const Piece file = Back(site.file, kMaxFileBytes);
  uint32_t hash = Hash(kHashSeed, name.text, name.length);
  hash = Hash(hash, file.text, file.length);
  hash = Hash(hash, reinterpret_cast<const char*>(&site.line), sizeof(site.line));
  const auto equals = [&](const SiteEntry& entry) {
    return entry.line == site.line && Same(entry.name, name) && Same(entry.file, file);
  };
  const auto fill = [&](SiteEntry* entry) {
    Copy(entry->name, name);
    Copy(entry->file, file);
    Copy(entry->category, Front(site.category, kMaxCategoryBytes));
    entry->line = site.line;
    entry->bit = site.bit;
    entry->role = site.role;
    entry->key_count = key_count < JOBSCOPE_MAX_KEYS ? key_count : JOBSCOPE_MAX_KEYS;
    for (uint32_t i = 0; i < entry->key_count; ++i) {
      Copy(entry->keys[i], Front(keys[i], kMaxKeyBytes));
    }
  };
  const uint32_t found = dynamic ? dictionary->dynamic_sites.FindOrAdd(hash, equals, fill)
                                 : dictionary->static_sites.FindOrAdd(hash, equals, fill);
  if (found == 0) {
    Refuse();
    return JOBSCOPE_SITE_WITHOUT_A_NAME;
  }
  return found - 1 + (dynamic ? kFirstDynamicId : kFirstStaticId);
}

uint32_t FindOrAddName(const char* text, size_t length) {
  Dictionary* dictionary = Get();
  if (dictionary == nullptr || text == nullptr) return Refuse();
  const Piece piece = Front(text, kMaxNameBytes, length);
  const uint32_t id = dictionary->names.FindOrAdd(
      Hash(kHashSeed, piece.text, piece.length),
      [&](const NameEntry& entry) { return Same(entry.text, piece); },
      [&](NameEntry* entry) { Copy(entry->text, piece); });
  return id != 0 ? id : Refuse();
}

bool DictionaryIsMapped() { return g_dictionary.load(std::memory_order_acquire) != nullptr; }

bool SiteInfo(uint32_t id, jobscope_site_info* out) {
  *out = {};
  if (id == JOBSCOPE_SITE_WITHOUT_A_NAME) {
    out->name = "(dictionary full)";
    out->category = "";
    out->file = "";
    out->bit = JOBSCOPE_BIT_LEVEL1;
    return true;
  }
  const Dictionary* dictionary = g_dictionary.load(std::memory_order_acquire);
  if (dictionary == nullptr || id == 0) return false;
  const SiteEntry* entry = id >= kFirstDynamicId
                               ? dictionary->dynamic_sites.At(id - kFirstDynamicId + 1)
                               : dictionary->static_sites.At(id - kFirstStaticId + 1);
  if (entry == nullptr) return false;
  out->name = entry->name;
  out->category = entry->category;
  out->file = entry->file;
  out->line = entry->line;
  out->bit = entry->bit;
  out->role = entry->role;
  out->key_count = entry->key_count;
  for (uint32_t i = 0; i < entry->key_count; ++i) out->keys[i] = entry->keys[i];
  return true;
}

const char* NameText(uint32_t id) {
  const Dictionary* dictionary = g_dictionary.load(std::memory_order_acquire);
  const NameEntry* entry = dictionary != nullptr ? dictionary->names.At(id) : nullptr;
  return entry != nullptr ? entry->text : nullptr;
}

}  // namespace jobscope::recorder
