// SPDX-License-Identifier: Apache-2.0
//
// Decodes records into values, and runs a thread that records, for tests of the recorder.
#ifndef TESTS_COLLECTORS_HOST_RECORDER_RECORDED_H_
#define TESTS_COLLECTORS_HOST_RECORDER_RECORDED_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "collectors/host/recorder/reader_abi.h"

namespace jobscope::recorder_test {

inline constexpr uint32_t kAllBits = JOBSCOPE_BIT_STEP | JOBSCOPE_BIT_INPUT_WAIT |
                                     JOBSCOPE_BIT_COARSE | JOBSCOPE_BIT_LEVEL1 |
                                     JOBSCOPE_BIT_LEVEL2 | JOBSCOPE_BIT_LEVEL3;

struct Value {
  uint32_t type = JOBSCOPE_ARG_NONE;
  uint64_t bits = 0;
  std::string text;

  int64_t AsInt64() const { return static_cast<int64_t>(bits); }
  double AsDouble() const {
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
};

struct Event {
  uint32_t site = 0;
  std::string name;
  std::vector<std::string> keys;
  uint32_t role = 0;
  uint32_t bit = 0;
  uint32_t kind = 0;
  uint32_t depth = 0;
  bool cut = false;
  uint64_t begin = 0;
  uint64_t end = 0;
  std::vector<Value> args;
};

// Turns whole events, as `read` returns them, into values. An event that is not well-formed comes
// back with kind 255.
std::vector<Event> Decode(const jobscope_record* records, uint64_t count);

struct ReadAllResult {
  std::vector<Event> events;
  uint64_t lost = 0;
  int status = 0;
};

// Everything of the thread from `cursor` on. Moves the cursor.
ReadAllResult ReadAll(uint64_t serial, jobscope_cursor* cursor);

// The serial of the calling thread's state; attaches the thread if it has none.
uint64_t MySerial();

std::vector<jobscope_thread_info> ListThreads();
jobscope_thread_info FindThread(uint64_t serial);

// While it lives, ended threads keep their rings, and `bits` are on.
class Recording {
 public:
  explicit Recording(uint32_t bits);
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording();
};

// Runs `body` on a thread of its own with `bits` on, and returns what it recorded.
std::vector<Event> Record(uint32_t bits, const std::function<void()>& body);

}  // namespace jobscope::recorder_test

#endif  // TESTS_COLLECTORS_HOST_RECORDER_RECORDED_H_
