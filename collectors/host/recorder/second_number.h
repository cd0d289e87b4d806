// SPDX-License-Identifier: Apache-2.0
//
// Parses the file from which the recorder reads a thread's run-queue delay. The recorder links
// nothing, so it cannot use common/process/proc_files.h.
#ifndef COLLECTORS_HOST_RECORDER_SECOND_NUMBER_H_
#define COLLECTORS_HOST_RECORDER_SECOND_NUMBER_H_

#include <stdint.h>

namespace jobscope::recorder {

// Parses the second number of a line such as "51466 120 7"; false: there is none.
inline bool SecondNumber(const char* text, long length, uint64_t* number) {
  long at = 0;
  while (at < length && text[at] >= '0' && text[at] <= '9') ++at;
  if (at == 0 || at >= length || text[at] != ' ') return false;
  uint64_t value = 0;
  const long first = ++at;
  for (; at < length && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = value * 10 + static_cast<uint64_t>(text[at] - '0');
  }
  *number = value;
  return at > first;
}

}  // namespace jobscope::recorder

#endif  // COLLECTORS_HOST_RECORDER_SECOND_NUMBER_H_
