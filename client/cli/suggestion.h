// SPDX-License-Identifier: Apache-2.0
//
// What somebody may have meant by a word that is not known.
#ifndef CLIENT_CLI_SUGGESTION_H_
#define CLIENT_CLI_SUGGESTION_H_

#include <optional>
#include <string>
#include <vector>

namespace jobscope {

// The known word that `word` begins (three letters at least), or else that is at most two letters
// off, swapped neighbours counting as one; '-' and '_' are the same. Absent: none, or several.
std::optional<std::string> Suggestion(const std::string& word,
                                      const std::vector<std::string>& known);

}  // namespace jobscope

#endif  // CLIENT_CLI_SUGGESTION_H_
