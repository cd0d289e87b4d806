// SPDX-License-Identifier: Apache-2.0
//
// Formats dates for logs. Header-only and libc-only: the attach library uses it, too.
#ifndef COMMON_TEXT_UTC_TEXT_H_
#define COMMON_TEXT_UTC_TEXT_H_

#include <stdint.h>
#include <stdio.h>

namespace jobscope {

// Room for the text, and for any seven numbers: GCC does not see how large these are.
inline constexpr size_t kUtcTextBytes = 96;

// Writes "2026-11-23T06:01:12.001Z" for a time since the epoch, in ms. Not by localtime_r() or
// gmtime_r(): they hold a lock of the C library, and a child that another thread forks meanwhile
// would wait for that lock for ever in its own first use of a date.
inline void FormatUtc(int64_t unix_ms, char (&text)[kUtcTextBytes]) {
  constexpr int64_t kDayMs = int64_t{24} * 60 * 60 * 1000;
  if (unix_ms < 0) unix_ms = 0;
  const auto is_leap = [](int year) {
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  };
  int64_t day = unix_ms / kDayMs;
  int year = 1970;
  for (int in_year; year < 9999 && day >= (in_year = is_leap(year) ? 366 : 365); ++year) {
    day -= in_year;
  }
  const int days[12] = {31, is_leap(year) ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int month = 0;
  for (; month < 11 && day >= days[month]; ++month) day -= days[month];
  const auto ms = static_cast<int>(unix_ms % kDayMs);
  snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", year, month + 1,
           static_cast<int>(day % 31) + 1, ms / 3'600'000, ms / 60'000 % 60, ms / 1000 % 60,
           ms % 1000);
}

}  // namespace jobscope

#endif  // COMMON_TEXT_UTC_TEXT_H_
