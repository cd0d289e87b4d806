// SPDX-License-Identifier: Apache-2.0
#include "tests/collectors/host/recorder/recorded.h"

#include <cstddef>
#include <thread>
#include <utility>

#include "jobscope/trace_c.h"

namespace jobscope::recorder_test {

std::vector<Event> Decode(const jobscope_record* records, uint64_t count) {
  const struct jobscope_trace_reader* reader = jobscope_trace_reader();
  std::vector<Event> events;
  for (uint64_t i = 0; i < count;) {
    const jobscope_record& main = records[i];
    const uint64_t end = i + 1 + JOBSCOPE_FLAGS_CONTINUATIONS(main.flags);
    Event event;
    event.site = main.site;
    event.kind = main.kind;
    event.depth = main.depth;
    event.cut = (main.flags & JOBSCOPE_FLAG_CUT) != 0;
    event.begin = main.begin_ticks;
    event.end = main.end_ticks;
    jobscope_site_info info;
    if (reader->site(main.site, &info) == 0) {
      event.name = info.name;
      event.role = info.role;
      event.bit = info.bit;
      for (uint32_t k = 0; k < info.key_count; ++k) event.keys.emplace_back(info.keys[k]);
    }
    const uint32_t type = JOBSCOPE_FLAGS_ARG_TYPE(main.flags);
    if (type != JOBSCOPE_ARG_NONE && type != JOBSCOPE_ARG_STRING) {
      event.args.push_back({type, main.arg, ""});
    }
    if (main.kind == JOBSCOPE_KIND_CONTINUATION || end > count) event.kind = 255;
    for (++i; i < end && i < count; ++i) {
      const jobscope_record& more = records[i];
      if (more.kind != JOBSCOPE_KIND_CONTINUATION || more.depth > event.args.size()) {
        event.kind = 255;
        continue;
      }
      const uint32_t more_type = JOBSCOPE_FLAGS_ARG_TYPE(more.flags);
      if (more.depth == event.args.size()) event.args.push_back({more_type, more.arg, ""});
      if (more_type != JOBSCOPE_ARG_STRING) continue;
      Value& value = event.args[more.depth];
      value.bits = 0;
      char text[24];
      std::memcpy(text, &more.begin_ticks, 8);
      std::memcpy(text + 8, &more.end_ticks, 8);
      std::memcpy(text + 16, &more.arg, 8);
      const size_t left = more.site - value.text.size();
      value.text.append(text, left < sizeof(text) ? left : sizeof(text));
    }
    events.push_back(std::move(event));
  }
  return events;
}

ReadAllResult ReadAll(uint64_t serial, jobscope_cursor* cursor) {
  ReadAllResult all;
  std::vector<jobscope_record> records(4096);
  jobscope_read_result result;
  do {
    all.status =
        jobscope_trace_reader()->read(serial, cursor, records.data(), records.size(), &result);
    for (Event& event : Decode(records.data(), result.records)) {
      all.events.push_back(std::move(event));
    }
    all.lost += result.lost_events;
  } while (all.status == 0 && result.more != 0);
  return all;
}

uint64_t MySerial() { return jobscope_trace_next_id() >> 32; }

std::vector<jobscope_thread_info> ListThreads() {
  std::vector<jobscope_thread_info> threads(4096);
  threads.resize(jobscope_trace_reader()->threads(0, threads.data(), threads.size()));
  return threads;
}

jobscope_thread_info FindThread(uint64_t serial) {
  jobscope_thread_info info = {};
  if (jobscope_trace_reader()->threads(serial, &info, 1) == 0 || info.serial != serial) return {};
  return info;
}

Recording::Recording(uint32_t bits) {
  jobscope_trace_reader()->hold_ended(1);
  jobscope_trace_reader()->set_mask(JOBSCOPE_HOLDER_SESSION, bits);
}

Recording::~Recording() {
  jobscope_trace_reader()->set_mask(JOBSCOPE_HOLDER_SESSION, 0);
  jobscope_trace_reader()->hold_ended(0);
}

std::vector<Event> Record(uint32_t bits, const std::function<void()>& body) {
  Recording recording(bits);
  uint64_t serial = 0;
  std::thread thread([&] {
    serial = MySerial();
    body();
  });
  thread.join();
  const jobscope_thread_info info = FindThread(serial);
  jobscope_cursor cursor = {info.first_record, info.first_event};
  return ReadAll(serial, &cursor).events;
}

}  // namespace jobscope::recorder_test
