// SPDX-License-Identifier: Apache-2.0
//
// Holds events of a provider, copied out of its memory, until they are encoded.
#ifndef COLLECTORS_PROVIDER_EVENT_BATCH_H_
#define COLLECTORS_PROVIDER_EVENT_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "jobscope/provider.h"

namespace jobscope::provider {

// Copies and holds events of a provider. Not thread-safe. Texts are cut at the limits of
// provider.h, never inside a UTF-8 sequence.
class EventBatch {
 public:
  struct Text {
    uint32_t offset = 0;
    uint32_t size = 0;
  };
  struct Arg {
    Text key;
    int32_t type = 0;         // jobscope_provider_arg_type
    int64_t int64_value = 0;  // also holds the bits of a uint64
    double double_value = 0;
    Text text;
  };
  struct Event {
    int64_t begin_ns = 0;
    int64_t duration_ns = 0;
    int64_t thread_id = 0;
    double value = 0;
    Text name;
    Text line;
    uint32_t first_arg = 0;
    uint16_t arg_count = 0;
    bool has_line = false;
    bool is_counter = false;
  };

  // Copies an event. False, without any effect: the event is invalid (no name, a negative duration,
  // an unknown kind or type).
  bool Add(const jobscope_provider_event& given);

  const std::vector<Event>& events() const { return events_; }
  const Arg* args(const Event& event) const { return args_.data() + event.first_arg; }
  std::string_view text(Text text) const {
    return std::string_view(texts_).substr(text.offset, text.size);
  }

  size_t bytes() const {
    return events_.size() * sizeof(Event) + args_.size() * sizeof(Arg) + texts_.size();
  }

 private:
  Text Keep(const char* text, size_t max_bytes);

  std::vector<Event> events_;
  std::vector<Arg> args_;
  std::string texts_;
};

}  // namespace jobscope::provider

#endif  // COLLECTORS_PROVIDER_EVENT_BATCH_H_
