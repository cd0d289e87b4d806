// SPDX-License-Identifier: Apache-2.0
//
// What applications give names to: domains, strings that are registered, categories. All bounded,
// all kept as long as the process: a handle that the application still uses never dangles, whatever
// it has destroyed.
#ifndef COLLECTORS_NVTX_NAMES_H_
#define COLLECTORS_NVTX_NAMES_H_

#include <cstdint>
#include <string_view>

#include "collectors/nvtx/text.h"

namespace jobscope::nvtx {

// Domains, the default one (0) included. What comes after them all is one domain, which says so.
inline constexpr uint32_t kMaxDomains = 256;
inline constexpr uint32_t kDefaultDomain = 0;
// Registered strings of a process, 127 bytes each. Those that come after them share one handle.
inline constexpr uint32_t kMaxStrings = 8192;
inline constexpr uint32_t kMaxCategories = 1024;

// Domains of one name are one. Null where a domain is not wanted: see names.cc.
const void* CreateDomain(const Text& name);
// Handles that are not ours, null among them, are the default domain's.
uint32_t DomainOf(const void* handle);
// Empty for the default domain. At most kNvtxMaxDomainBytes, without control characters.
std::string_view DomainName(uint32_t domain);

const void* RegisterString(const Text& text);
// Empty if the handle is not one of ours.
void GetRegistered(const void* handle, Text* text);

// Without effect when there are kMaxCategories already: the category keeps its number.
void NameCategory(uint32_t domain, uint32_t category, const Text& name);
// Stands for the name that the category has now; 0: none.
uint32_t CategoryNameId(uint32_t domain, uint32_t category);
// At most kNvtxMaxCategoryBytes.
std::string_view CategoryName(uint32_t id);

}  // namespace jobscope::nvtx

#endif  // COLLECTORS_NVTX_NAMES_H_
