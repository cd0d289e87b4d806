// SPDX-License-Identifier: Apache-2.0
//
// Writes a manifest as JSON: docs/manifest.md.
#ifndef COMMON_RUN_MANIFEST_JSON_H_
#define COMMON_RUN_MANIFEST_JSON_H_

#include <string>

#include "common/run/manifest.h"

namespace jobscope {

inline constexpr int kManifestSchema = 1;

// Returns JSON in UTF-8 (invalid bytes are replaced), indented by two spaces, with a final line
// break.
std::string ManifestJson(const Manifest& manifest);

}  // namespace jobscope

#endif  // COMMON_RUN_MANIFEST_JSON_H_
