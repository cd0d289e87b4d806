// SPDX-License-Identifier: Apache-2.0
//
// Suggests a known word for an unknown one.
#ifndef CLIENT_CLI_SUGGESTION_H_
#define CLIENT_CLI_SUGGESTION_H_

#include <optional>
#include <string>
#include <vector>

namespace jobscope {

// Returns the known word that begins with `word` (at least three letters), otherwise the one at
// most two edits away; a swap of neighbours counts as one, and '-' equals '_'. Absent if there is
// none, or several.
std::optional<std::string> Suggestion(const std::string& word,
                                      const std::vector<std::string>& known);

}  // namespace jobscope

#endif  // CLIENT_CLI_SUGGESTION_H_
