// SPDX-License-Identifier: Apache-2.0
//
// Lays out text for a terminal: columns, long lists, numbers.
#ifndef CLIENT_TERMINAL_COLUMNS_H_
#define CLIENT_TERMINAL_COLUMNS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace jobscope {

using Row = std::vector<std::string>;

// Aligns rows of equal length in columns of UTF-8 characters. The first row is the heading; the
// last column is not padded. Omits columns that are empty in every row but the heading.
std::string AlignColumns(const std::vector<Row>& rows);
// Returns the same as one line per row, without line breaks.
std::vector<std::string> AlignedLines(const std::vector<Row>& rows);

// Breaks a list whose entries end in "; " into lines of a terminal's width, the further ones
// indented.
std::string Wrapped(const std::string& text);

// Returns "1,234,567".
std::string Grouped(uint64_t number);
// Returns "0", "512 B", "1.5 KiB", "3.0 GiB".
std::string ByteCount(uint64_t bytes);

}  // namespace jobscope

#endif  // CLIENT_TERMINAL_COLUMNS_H_
