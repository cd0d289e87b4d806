// SPDX-License-Identifier: Apache-2.0
//
// Stores the sites and the interned names of the process: bounded, append-only, lock-free. Copies
// the strings, so that nothing points into a module that may be unloaded.
#ifndef COLLECTORS_HOST_RECORDER_DICTIONARY_H_
#define COLLECTORS_HOST_RECORDER_DICTIONARY_H_

#include <stddef.h>
#include <stdint.h>

#include "collectors/host/recorder/reader_abi.h"

namespace jobscope::recorder {

// Static sites and sites of dynamic names have separate bounds, so that a program that generates
// names cannot displace the sites in its code.
inline constexpr uint32_t kMaxStaticSites = 16384;
inline constexpr uint32_t kMaxDynamicSites = 4096;
inline constexpr uint32_t kMaxNames = 4096;
inline constexpr uint32_t kMaxNameBytes = 128;  // with the terminator; longer ones are cut
inline constexpr uint32_t kMaxFileBytes = 128;  // likewise; the end of the path is kept
inline constexpr uint32_t kMaxCategoryBytes = 32;
inline constexpr uint32_t kMaxKeyBytes = 32;

// Returns the id of the site with this (name, file, line); registers it if it is new. Never
// 0; JOBSCOPE_SITE_WITHOUT_A_NAME if there is no space for it.
uint32_t FindOrAddSite(const jobscope_site& site, const char* const* keys, uint32_t key_count,
                       bool dynamic);
// Returns the id of the text; 0 when the table is full.
uint32_t FindOrAddName(const char* text, size_t length);

// Returns false while there is no memory for the dictionary: later calls may succeed.
bool DictionaryIsMapped();

// Returns false when there is no such site.
bool SiteInfo(uint32_t id, jobscope_site_info* out);
// Returns nullptr when there is no such name.
const char* NameText(uint32_t id);

}  // namespace jobscope::recorder

#endif  // COLLECTORS_HOST_RECORDER_DICTIONARY_H_
