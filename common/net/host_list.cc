// SPDX-License-Identifier: Apache-2.0
#include "common/net/host_list.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/net/endpoint.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

// Bounds one entry, so that an expanded host list stays within kMaxEndpoints times this size.
constexpr size_t kMaxEntryBytes = 4096;

std::string Padded(uint32_t value, size_t width) {
  std::string digits = absl::StrCat(value);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return digits;
}

// "01-03,7" -> 01 02 03 7
absl::StatusOr<std::vector<std::string>> ExpandRanges(absl::string_view entry,
                                                      absl::string_view ranges) {
  std::vector<std::string> values;
  for (const absl::string_view range : absl::StrSplit(ranges, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrContains(range, '-') ? std::pair<absl::string_view, absl::string_view>(
                                            absl::StrSplit(range, absl::MaxSplits('-', 1)))
                                      : std::make_pair(range, range);
    uint32_t first = 0;
    uint32_t last = 0;
    if (!ParseDigits(ends.first, &first) || !ParseDigits(ends.second, &last)) {
      return BadAddress(
          entry, absl::StrCat("'", Printable(range),
                              "' is not a range; write node[01-16]:port or node[1-3,7]:port"));
    }
    if (first > last) {
      return BadAddress(entry, absl::StrCat("the range ", Printable(range), " runs backwards"));
    }
    if (last - first >= kMaxEndpoints || values.size() + (last - first) >= kMaxEndpoints) {
      return BadAddress(entry, absl::StrCat("the range ", Printable(range), " has more than ",
                                            kMaxEndpoints, " members"));
    }
    const size_t width = ends.first[0] == '0' ? ends.first.size() : 0;
    for (uint32_t value = first; value <= last; ++value) values.push_back(Padded(value, width));
  }
  return values;
}

}  // namespace

bool ParseDigits(absl::string_view text, uint32_t* value) {
  if (text.empty() || text.size() > 9) return false;
  for (const char c : text) {
    if (!absl::ascii_isdigit(c)) return false;
  }
  return absl::SimpleAtoi(text, value);
}

absl::StatusOr<std::vector<std::string>> ExpandHostList(absl::string_view entry) {
  if (entry.size() > kMaxEntryBytes) {
    return BadAddress(entry, absl::StrCat("longer than ", kMaxEntryBytes, " bytes"));
  }
  std::vector<std::string> results = {""};
  absl::string_view rest = entry;
  while (!rest.empty()) {
    const size_t open = rest.find('[');
    const size_t close = rest.find(']', open == absl::string_view::npos ? 0 : open);
    if (open == absl::string_view::npos || close == absl::string_view::npos ||
        absl::StrContains(rest.substr(open, close - open), ':')) {
      for (std::string& result : results) absl::StrAppend(&result, rest);
      break;
    }
    const absl::StatusOr<std::vector<std::string>> values =
        ExpandRanges(entry, rest.substr(open + 1, close - open - 1));
    if (!values.ok()) return values.status();
    if (results.size() * values->size() > kMaxEndpoints) {
      return BadAddress(entry, absl::StrCat("it expands to more than ", kMaxEndpoints, " workers"));
    }
    std::vector<std::string> longer;
    longer.reserve(results.size() * values->size());
    for (const std::string& result : results) {
      for (const std::string& value : *values) {
        longer.push_back(absl::StrCat(result, rest.substr(0, open), value));
      }
    }
    results = std::move(longer);
    rest.remove_prefix(close + 1);
  }
  return results;
}

}  // namespace jobscope
