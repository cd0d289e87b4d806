// SPDX-License-Identifier: Apache-2.0
//
// Stores what applications name: domains, registered strings, categories. All are bounded and live
// as long as the process: a handle that the application still uses never dangles, even if it
// destroyed the object.
#ifndef COLLECTORS_NVTX_NAMES_H_
#define COLLECTORS_NVTX_NAMES_H_

#include <cstdint>
#include <string_view>

#include "collectors/nvtx/text.h"

namespace jobscope::nvtx {

// Maximum number of domains, including the default one (0). All further ones share one domain,
// whose name says so.
inline constexpr uint32_t kMaxDomains = 256;
inline constexpr uint32_t kDefaultDomain = 0;
// Maximum number of registered strings in a process, 127 bytes each. Further ones share one handle.
inline constexpr uint32_t kMaxStrings = 8192;
inline constexpr uint32_t kMaxCategories = 1024;

// Returns the domain of that name; equal names give the same domain. Null for unwanted domains: see
// names.cc.
const void* CreateDomain(const Text& name);
// Returns the default domain for foreign handles, including null.
uint32_t DomainOf(const void* handle);
// Returns at most kNvtxMaxDomainBytes, without control characters. Empty for the default domain.
std::string_view DomainName(uint32_t domain);

const void* RegisterString(const Text& text);
// Returns an empty text for foreign handles.
void GetRegistered(const void* handle, Text* text);

// Names a category. Has no effect once there are kMaxCategories: the category keeps its number.
void NameCategory(uint32_t domain, uint32_t category, const Text& name);
// Returns the id of the category's current name; 0: none.
uint32_t CategoryNameId(uint32_t domain, uint32_t category);
// Returns at most kNvtxMaxCategoryBytes.
std::string_view CategoryName(uint32_t id);

}  // namespace jobscope::nvtx

#endif  // COLLECTORS_NVTX_NAMES_H_
