// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvtx/names.h"

#include <atomic>
#include <cstddef>
#include <cstring>

#include "collectors/nvtx/table.h"
#include "common/text/utf8.h"
#include "common/xspace/segment/nvtx_place.h"

namespace jobscope::nvtx {
namespace {

// Name of XLA's domain. XLA takes a domain handle as a sign of an active tool and then sends its
// operators' names to NVTX *instead of* to its own profiler: a capture with that profiler by
// somebody else would lose them because jobscope is loaded.
constexpr std::string_view kXlaDomain = "TSL";

template <size_t kSize>
struct ShortName {
  uint8_t size;
  char text[kSize];

  // Cuts between two characters; control characters become spaces.
  void Set(const Text& name) {
    size_t kept = name.size() < kSize ? name.size() : kSize;
    if (kept < name.size()) {
      while (kept > 0 && IsUtf8Continuation(name.data()[kept])) --kept;
    }
    for (size_t i = 0; i < kept; ++i) {
      const char c = name.data()[i];
      text[i] = static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    size = static_cast<uint8_t>(kept);
  }
  std::string_view view() const { return {text, size}; }
};

struct Domain {
  uint64_t hash;
  uint8_t full_size;
  char full[kMaxTextBytes + 1];
  ShortName<kNvtxMaxDomainBytes> name;
};

struct RegisteredString {
  uint64_t hash;
  uint8_t size;
  char text[kMaxTextBytes + 1];
};

struct NameOfCategory {
  uint64_t hash;
  ShortName<kNvtxMaxCategoryBytes> name;
};

struct Category {
  uint64_t hash;
  uint32_t domain;
  uint32_t number;
  std::atomic<uint32_t> name;
};

Table<Domain, kMaxDomains - 1> g_domains;
Table<RegisteredString, kMaxStrings> g_strings;
Table<Category, kMaxCategories> g_categories;
Table<NameOfCategory, kMaxCategories> g_category_names;

uint32_t AddDomain(const Text& name, uint32_t limit) {
  return g_domains.FindOrAdd(
      name.hash(), [&](const Domain& entry) { return name.Equals(entry.full, entry.full_size); },
      [&](Domain* entry) {
        entry->full_size = static_cast<uint8_t>(name.size());
        name.CopyTo(entry->full);
        entry->name.Set(name);
      },
      limit);
}

uint32_t AddString(const Text& text, uint32_t limit) {
  return g_strings.FindOrAdd(
      text.hash(),
      [&](const RegisteredString& entry) { return text.Equals(entry.text, entry.size); },
      [&](RegisteredString* entry) {
        entry->size = static_cast<uint8_t>(text.size());
        text.CopyTo(entry->text);
      },
      limit);
}

uint64_t HashCategory(uint32_t domain, uint32_t category) { return MixHash(domain, category); }

}  // namespace

const void* CreateDomain(const Text& name) {
  if (name.Equals(kXlaDomain.data(), kXlaDomain.size())) return nullptr;
  // The last entry is reserved for all further domains.
  uint32_t id = AddDomain(name, kMaxDomains - 2);
  if (id == 0) {
    Text rest;
    rest.SetBytes("(more NVTX domains)");
    id = AddDomain(rest, kMaxDomains - 1);
  }
  return id == 0 ? nullptr : &g_domains.At(id);
}

uint32_t DomainOf(const void* handle) {
  return handle == nullptr ? kDefaultDomain : g_domains.IdOf(handle);
}

std::string_view DomainName(uint32_t domain) {
  return domain == kDefaultDomain ? std::string_view() : g_domains.At(domain).name.view();
}

const void* RegisterString(const Text& text) {
  uint32_t id = AddString(text, kMaxStrings - 1);
  if (id == 0) {
    Text rest;
    rest.SetBytes("(more NVTX strings)");
    id = AddString(rest, kMaxStrings);
  }
  return id == 0 ? nullptr : &g_strings.At(id);
}

void GetRegistered(const void* handle, Text* text) {
  const uint32_t id = g_strings.IdOf(handle);
  if (id == 0) {
    text->SetBytes(nullptr);
    return;
  }
  const RegisteredString& entry = g_strings.At(id);
  text->SetKnown(entry.text, entry.size, entry.hash);
}

void NameCategory(uint32_t domain, uint32_t category, const Text& name) {
  if (name.empty()) return;
  ShortName<kNvtxMaxCategoryBytes> kept;
  kept.Set(name);
  const uint32_t text = g_category_names.FindOrAdd(
      HashBytes(kept.text, kept.size),
      [&](const NameOfCategory& entry) { return entry.name.view() == kept.view(); },
      [&](NameOfCategory* entry) { entry->name = kept; });
  const uint32_t id = g_categories.FindOrAdd(
      HashCategory(domain, category),
      [&](const Category& entry) { return entry.domain == domain && entry.number == category; },
      [&](Category* entry) {
        entry->domain = domain;
        entry->number = category;
        entry->name.store(0, std::memory_order_relaxed);
      });
  // Release: a reader of the id finds the name.
  if (id != 0 && text != 0) g_categories.At(id).name.store(text, std::memory_order_release);
}

uint32_t CategoryNameId(uint32_t domain, uint32_t category) {
  const uint32_t id = g_categories.Find(HashCategory(domain, category), [&](const Category& entry) {
    return entry.domain == domain && entry.number == category;
  });
  return id == 0 ? 0 : g_categories.At(id).name.load(std::memory_order_acquire);
}

std::string_view CategoryName(uint32_t id) { return g_category_names.At(id).name.view(); }

}  // namespace jobscope::nvtx
