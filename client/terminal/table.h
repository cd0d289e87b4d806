// SPDX-License-Identifier: Apache-2.0
//
// Tables for people: one line per worker.
#ifndef CLIENT_TERMINAL_TABLE_H_
#define CLIENT_TERMINAL_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/run/manifest.h"

namespace jobscope {

// Rows of equal length, the first being the heading, as aligned columns; the last column is not
// padded. Columns that are empty in every row but the heading are left out.
std::string AlignColumns(const std::vector<std::vector<std::string>>& rows);

// "1,234,567"
std::string Grouped(uint64_t number);
// "0", "512 B", "1.5 KiB", "3.0 GiB"
std::string ByteCount(uint64_t bytes);

// The table at the end of a capture and the lines below it: how many delivered, events, losses,
// warnings, where it is.
std::string CaptureTable(const Manifest& manifest);
// Who is there.
std::string CheckTable(const Manifest& manifest);
// What was stopped.
std::string StopTable(const Manifest& manifest);

}  // namespace jobscope

#endif  // CLIENT_TERMINAL_TABLE_H_
