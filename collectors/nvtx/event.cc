// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvtx/event.h"

#include <cstdio>
#include <cstring>
#include <string_view>

#include "collectors/nvtx/names.h"
#include "collectors/nvtx/recorder.h"
#include "collectors/nvtx/table.h"
#include "common/xspace/segment/nvtx_place.h"

namespace jobscope::nvtx {
namespace {

// Sites used once kMaxSites is reached: one per domain and kind, for all messages without a site of
// their own.
constexpr uint32_t kMaxSharedSites = kMaxDomains * 3;

constexpr char kNoMessage[] = "(no message)";

// Distinguishes sites, together with the text.
struct SiteKey {
  uint64_t what = 0;   // kind, domain, schema, id of the category's name
  uint64_t looks = 0;  // category, colour
  bool operator==(const SiteKey& other) const { return what == other.what && looks == other.looks; }
};

struct SiteEntry {
  uint64_t hash;
  SiteKey key;
  uint32_t site;
  uint8_t size;
  char text[kMaxTextBytes + 1];
};

Table<SiteEntry, kMaxSites + kMaxSharedSites> g_sites;

SiteKey KeyOf(EventKind kind, const Description& description, uint32_t category_name) {
  SiteKey key;
  key.what = static_cast<uint64_t>(kind) | uint64_t{description.domain} << 8 |
             uint64_t{description.has_color} << 17 | uint64_t{description.numbers.schema} << 20 |
             uint64_t{category_name} << 40;
  key.looks = uint64_t{description.category} << 32 | description.color;
  return key;
}

// Writes "nvtx:DOMAIN<tab>CATEGORY<tab>#rrggbb". Omits the alpha, because many programs give none.
void WritePlace(const Description& description, uint32_t category_name, char (&place)[128]) {
  char category[16] = "";
  std::string_view category_text;
  if (category_name != 0) {
    category_text = CategoryName(category_name);
  } else if (description.category != 0) {
    snprintf(category, sizeof(category), "%u", description.category);
    category_text = category;
  }
  char color[8] = "";
  if (description.has_color) {
    snprintf(color, sizeof(color), "#%06x", description.color & 0xFFFFFF);
  }
  const std::string_view domain = DomainName(description.domain);
  snprintf(place, sizeof(place), "%s%.*s%c%.*s%c%s", kNvtxPlacePrefix.data(),
           static_cast<int>(domain.size()), domain.data(), kNvtxPlaceSeparator,
           static_cast<int>(category_text.size()), category_text.data(), kNvtxPlaceSeparator,
           color);
}

uint32_t RegisterSite(EventKind kind, const Description& description, uint32_t category_name,
                      const char* text, bool shared) {
  char place[128];
  WritePlace(description, category_name, place);
  const char* keys[JOBSCOPE_MAX_KEYS] = {"id"};
  uint32_t key_count = kind == EventKind::kStartEnd ? 1 : 0;
  if (shared) keys[key_count++] = "message";
  key_count += FieldNames(description.numbers.schema, keys + key_count);
  static constexpr uint32_t kRoles[] = {JOBSCOPE_ROLE_SCOPE, JOBSCOPE_ROLE_INSTANT,
                                        JOBSCOPE_ROLE_ASYNC};
  jobscope_site site = {};
  site.size = sizeof(site);
  site.name = text;
  site.category = "";
  site.file = place;
  // The recorder distinguishes sites by name, file and line; these determine role and keys.
  site.line = static_cast<uint32_t>(kind) | description.numbers.schema << 2;
  site.bit = kBit;
  site.role = kRoles[static_cast<uint32_t>(kind)];
  return Writer()->register_site(&site, keys, key_count);
}

// Returns 0 if there is no space.
uint32_t FindOrAddSite(EventKind kind, const Description& description, const Text& text,
                       bool shared) {
  const uint32_t category_name =
      description.category == 0 ? 0 : CategoryNameId(description.domain, description.category);
  const SiteKey key = KeyOf(kind, description, category_name);
  const uint64_t hash = MixHash(MixHash(text.hash(), key.what), key.looks);
  const auto equals = [&](const SiteEntry& entry) {
    return entry.key == key && text.Equals(entry.text, entry.size);
  };
  uint32_t id = g_sites.Find(hash, equals);
  if (id == 0) {
    id = g_sites.FindOrAdd(
        hash, equals,
        [&](SiteEntry* entry) {
          entry->key = key;
          entry->size = static_cast<uint8_t>(text.size());
          text.CopyTo(entry->text);
          entry->site = RegisterSite(kind, description, category_name, entry->text, shared);
        },
        shared ? kMaxSites + kMaxSharedSites : kMaxSites);
  }
  return id == 0 ? 0 : g_sites.At(id).site;
}

uint32_t SharedSite(EventKind kind, uint32_t domain) {
  Description shared;
  shared.domain = domain;
  shared.text.SetBytes(kNvtxMoreNames.data());
  return FindOrAddSite(kind, shared, shared.text, /*shared=*/true);
}

template <typename Member>
bool Has(const abi::EventAttributes* attributes, const Member& member) {
  const auto offset =
      reinterpret_cast<const char*>(&member) - reinterpret_cast<const char*>(attributes);
  return static_cast<size_t>(offset) + sizeof(Member) <= attributes->size;
}

}  // namespace

void Describe(const abi::EventAttributes* attributes, Description* description) {
  const void* message = nullptr;
  if (attributes != nullptr) {
    if (Has(attributes, attributes->category)) description->category = attributes->category;
    if (Has(attributes, attributes->color) && attributes->color_type == abi::kColorArgb) {
      description->has_color = true;
      description->color = attributes->color;
    }
    if (Has(attributes, attributes->payload)) {
      const uint64_t bits = attributes->payload.uint64_value;
      if (attributes->payload_type != abi::kPayloadExtended) {
        ReadPlain(attributes->payload_type, bits, &description->numbers);
      } else if (attributes->payload_count > 0) {
        const abi::PayloadData* payloads;
        memcpy(&payloads, &bits, sizeof(bits));
        ReadExtended(description->domain, payloads, static_cast<size_t>(attributes->payload_count),
                     &description->numbers, &message);
      }
    }
    if (Has(attributes, attributes->message)) {
      switch (attributes->message_type) {
        case abi::kMessageAscii:
          description->text.SetBytes(attributes->message.ascii);
          break;
        case abi::kMessageWide:
          description->text.SetWide(attributes->message.wide);
          break;
        case abi::kMessageRegistered:
          message = attributes->message.registered;
          break;
        default:
          break;
      }
    }
  }
  if (description->text.empty() && message != nullptr) GetRegistered(message, &description->text);
}

void DescribePayloads(const abi::PayloadData* payloads, size_t count, Description* description) {
  const void* message = nullptr;
  ReadExtended(description->domain, payloads, count, &description->numbers, &message);
  if (message != nullptr) GetRegistered(message, &description->text);
  if (description->text.empty()) {
    description->text.SetBytes(SchemaName(description->numbers.schema));
  }
}

void MakeEvent(EventKind kind, const Description& description, Event* event) {
  const uint32_t first = kind == EventKind::kStartEnd ? 1 : 0;
  const Numbers& numbers = description.numbers;
  event->arg_count = first + numbers.count;
  if (numbers.count > 0) {
    memcpy(event->args + first, numbers.values, numbers.count * sizeof(numbers.values[0]));
  }
  if (description.text.empty()) {
    Text none;
    none.SetBytes(kNoMessage);
    event->site = FindOrAddSite(kind, description, none, /*shared=*/false);
  } else {
    event->site = FindOrAddSite(kind, description, description.text, /*shared=*/false);
  }
  if (event->site != 0) return;
  // No space: the message travels with the event, and one number after it.
  event->site = SharedSite(kind, description.domain);
  jobscope_arg& message = event->args[first];
  message = {};
  message.type = JOBSCOPE_ARG_STRING;
  message.length = static_cast<uint32_t>(description.text.size());
  message.value.text = description.text.data();
  event->arg_count = first + 1;
  if (numbers.count > 0) event->args[event->arg_count++] = numbers.values[0];
}

}  // namespace jobscope::nvtx
