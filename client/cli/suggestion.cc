// SPDX-License-Identifier: Apache-2.0
#include "client/cli/suggestion.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"

namespace jobscope {
namespace {

constexpr size_t kMaxDistance = 2;
constexpr size_t kMinPrefix = 3;

// Counts letters to add, to delete, to replace, and neighbours to swap.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        rows[i][j] = i + j;
        continue;
      }
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1,
                             rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> Suggestion(const std::string& word,
                                      const std::vector<std::string>& known) {
  // No known word is nearly as long.
  if (word.size() > 100) return std::nullopt;
  const std::string plain = absl::StrReplaceAll(word, {{"-", "_"}});
  std::vector<std::string> begun;
  std::vector<std::string> nearest;
  // Short words are similar to many others.
  size_t least = std::min(kMaxDistance, plain.size() / 3) + 1;
  for (const std::string& candidate : known) {
    if (plain.size() >= kMinPrefix && absl::StartsWith(candidate, plain))
      begun.push_back(candidate);
    const size_t distance = Distance(plain, candidate);
    if (distance < least) {
      least = distance;
      nearest.clear();
    }
    if (distance == least && distance <= kMaxDistance && distance <= plain.size() / 3) {
      nearest.push_back(candidate);
    }
  }
  if (nearest.size() == 1) return nearest[0];
  if (begun.size() == 1) return begun[0];
  return std::nullopt;
}

}  // namespace jobscope
