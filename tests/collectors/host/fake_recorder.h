// SPDX-License-Identifier: Apache-2.0
//
// Implements a recorder whose rings are filled by a test.
#ifndef TESTS_COLLECTORS_HOST_FAKE_RECORDER_H_
#define TESTS_COLLECTORS_HOST_FAKE_RECORDER_H_

#include <errno.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "collectors/host/encoding/reader.h"

namespace jobscope {

// One at a time: the table's functions know no context. Ticks are nanoseconds. Single-threaded.
class FakeRecorder {
 public:
  struct Thread {
    int32_t tid = 0;
    std::string name;
    bool ended = false;
    bool has_ring = true;
    std::vector<jobscope_record> records;  // all that were ever written
    uint64_t overwritten_events = 0;       // from the front
    uint64_t reentered = 0;
    std::vector<jobscope_open_scope> open;
    bool released = false;
  };
  struct SiteText {
    std::string name, category, file;
    uint32_t line = 0, bit = JOBSCOPE_BIT_LEVEL1, role = JOBSCOPE_ROLE_SCOPE;
    std::vector<std::string> keys;
  };

  FakeRecorder() {
    current_ = this;
    table_.size = sizeof(table_);
    table_.uses_tsc = 0;
    table_.ring_records = 1024;
    table_.set_mask = [](uint32_t holder, uint32_t bits) { current_->masks[holder] = bits; };
    table_.mask = [] {
      uint32_t bits = 0;
      for (const auto& [holder, mask] : current_->masks) bits |= mask;
      return bits;
    };
    table_.quiesce = [] {};
    table_.configure = [](uint32_t, uint64_t) { return 0; };
    table_.prefault = [](uint32_t count) { return current_->prefaulted = count; };
    table_.threads = &Threads;
    table_.hold_ended = [](uint32_t hold) { current_->holding = hold != 0; };
    table_.release = [](uint64_t serial) {
      if (current_->threads.count(serial) != 0) current_->threads[serial].released = true;
    };
    table_.oldest = &Oldest;
    table_.read = &Read;
    table_.open_scopes = &OpenScopes;
    table_.site = &Site;
    table_.name = [](uint32_t id) -> const char* {
      const auto found = current_->names.find(id);
      return found == current_->names.end() ? nullptr : found->second.c_str();
    };
    table_.totals = [](jobscope_totals* out) {
      if (current_->totals_until_no_memory-- == 0) throw std::bad_alloc();
      *out = current_->totals;
    };
    table_.arm_trigger = [](int64_t, int64_t, uint32_t) {
      current_->trigger.state = JOBSCOPE_TRIGGER_ARMED;
    };
    table_.disarm_trigger = [] { current_->trigger.state = JOBSCOPE_TRIGGER_IDLE; };
    table_.trigger = [](jobscope_trigger_info* out) { *out = current_->trigger; };
    table_.recent_steps = [](jobscope_step_info*, size_t) { return size_t{0}; };
    table_.step_count = [] { return current_->step_count; };
    table_.arm_trigger_by_ordinal = [](uint64_t, uint64_t, uint32_t) {
      current_->trigger.state = JOBSCOPE_TRIGGER_ARMED;
    };
    table_.trigger_ordinals = [](uint64_t* first, uint64_t* last) { *first = *last = 0; };
    table_.last_step_fall = [] { return uint64_t{0}; };
    table_.step_source = [] { return current_->step_source; };
  }
  ~FakeRecorder() { current_ = nullptr; }
  FakeRecorder(const FakeRecorder&) = delete;
  FakeRecorder& operator=(const FakeRecorder&) = delete;

  const host::Reader* table() const { return &table_; }
  void set_max_listed_without_ring(uint32_t most) { table_.max_listed_without_ring = most; }

  // Appends a main record.
  void Add(uint64_t serial, uint8_t kind, uint32_t site, uint64_t begin, uint64_t end,
           uint8_t depth = 0, uint64_t arg = 0, uint32_t arg_type = JOBSCOPE_ARG_NONE,
           uint32_t continuations = 0, bool cut = false) {
    jobscope_record record{};
    record.begin_ticks = begin;
    record.end_ticks = end;
    record.site = site;
    record.kind = kind;
    record.depth = depth;
    record.flags =
        static_cast<uint16_t>(arg_type | continuations << 4 | (cut ? JOBSCOPE_FLAG_CUT : 0));
    record.arg = arg;
    threads[serial].records.push_back(record);
  }
  void Scope(uint64_t serial, uint32_t site, uint64_t begin, uint64_t end, uint8_t depth = 0) {
    Add(serial, JOBSCOPE_KIND_SCOPE, site, begin, end, depth);
  }
  void NumberArg(uint64_t serial, uint8_t index, uint32_t type, uint64_t value) {
    jobscope_record record{};
    record.kind = JOBSCOPE_KIND_CONTINUATION;
    record.depth = index;
    record.flags = static_cast<uint16_t>(type);
    record.arg = value;
    threads[serial].records.push_back(record);
  }
  // Returns how many records the text takes.
  static uint32_t Parts(const std::string& text) {
    return std::max<uint32_t>(1, static_cast<uint32_t>((text.size() + 23) / 24));
  }
  void TextArg(uint64_t serial, uint8_t index, const std::string& text) {
    for (uint32_t part = 0; part < Parts(text); ++part) {
      char bytes[24] = {};
      const size_t from = 24 * part;
      std::copy_n(text.begin() + static_cast<std::ptrdiff_t>(from),
                  std::min<size_t>(24, text.size() - from), bytes);
      jobscope_record record{};
      record.kind = JOBSCOPE_KIND_CONTINUATION;
      record.depth = index;
      record.flags = JOBSCOPE_ARG_STRING;
      record.site = static_cast<uint32_t>(text.size());
      std::memcpy(&record.begin_ticks, bytes, 8);
      std::memcpy(&record.end_ticks, bytes + 8, 8);
      std::memcpy(&record.arg, bytes + 16, 8);
      threads[serial].records.push_back(record);
    }
  }

  std::map<uint64_t, Thread> threads;  // by serial
  std::map<uint32_t, SiteText> sites;
  std::map<uint32_t, std::string> names;
  std::map<uint32_t, uint32_t> masks;
  jobscope_totals totals{};
  jobscope_trigger_info trigger{};
  uint64_t step_count = 0;
  uint32_t step_source = 0;
  uint32_t prefaulted = 0;
  bool holding = false;
  int totals_until_no_memory = -1;  // then a call of totals() throws, as the code around it may
  int lists = 0;                    // of threads that were asked for
  std::function<void()> before_next_read;  // runs once, as threads do between list and read
  int empty_reads = 0;  // so many reads come away empty, as when a thread laps the reader

 private:
  static uint64_t Size(const Thread& thread, uint64_t at) {
    return std::min<uint64_t>(1 + JOBSCOPE_FLAGS_CONTINUATIONS(thread.records[at].flags),
                              thread.records.size() - at);
  }
  static uint64_t Events(const Thread& thread) {
    uint64_t events = 0;
    for (uint64_t at = 0; at < thread.records.size(); at += Size(thread, at)) ++events;
    return events;
  }
  static jobscope_cursor OldestOf(const Thread& thread) {
    jobscope_cursor cursor{0, 0};
    while (cursor.event < thread.overwritten_events) {
      cursor.record += Size(thread, cursor.record);
      ++cursor.event;
    }
    return cursor;
  }

  static size_t Threads(uint64_t from, jobscope_thread_info* out, size_t capacity) {
    ++current_->lists;
    size_t count = 0;
    for (const auto& [serial, thread] : current_->threads) {
      if (serial < from || count == capacity) continue;
      jobscope_thread_info& info = out[count++];
      info = {};
      info.serial = serial;
      info.tid = thread.tid;
      info.ended = thread.ended ? 1 : 0;
      info.has_ring = thread.has_ring ? 1 : 0;
      std::snprintf(info.name, sizeof(info.name), "%s", thread.name.c_str());
      info.head_record = thread.records.size();
      info.head_event = Events(thread);
      info.reentered = thread.reentered;
    }
    return count;
  }
  static jobscope_cursor Oldest(uint64_t serial) { return OldestOf(current_->threads[serial]); }

  static int Read(uint64_t serial, jobscope_cursor* cursor, jobscope_record* out, size_t capacity,
                  jobscope_read_result* result) {
    *result = {};
    if (current_->before_next_read) std::exchange(current_->before_next_read, nullptr)();
    const auto found = current_->threads.find(serial);
    if (found == current_->threads.end()) return ENOENT;
    if (current_->empty_reads > 0) {
      --current_->empty_reads;
      result->more = 1;
      return 0;
    }
    const Thread& thread = found->second;
    const jobscope_cursor oldest = OldestOf(thread);
    if (cursor->record < oldest.record) {
      result->lost_events = oldest.event - cursor->event;
      *cursor = oldest;
    }
    while (cursor->record < thread.records.size()) {
      const uint64_t size = Size(thread, cursor->record);
      if (result->records + size > capacity) break;
      std::copy_n(thread.records.begin() + static_cast<std::ptrdiff_t>(cursor->record), size,
                  out + result->records);
      result->records += size;
      ++result->events;
      cursor->record += size;
      ++cursor->event;
    }
    result->more = cursor->record < thread.records.size() ? 1 : 0;
    return 0;
  }
  static size_t OpenScopes(uint64_t serial, jobscope_open_scope* out, size_t capacity) {
    const std::vector<jobscope_open_scope>& open = current_->threads[serial].open;
    const size_t count = std::min(open.size(), capacity);
    std::copy_n(open.begin(), count, out);
    return count;
  }
  static int Site(uint32_t id, jobscope_site_info* out) {
    const auto found = current_->sites.find(id);
    if (found == current_->sites.end()) return ENOENT;
    const SiteText& site = found->second;
    *out = {};
    out->name = site.name.c_str();
    out->category = site.category.c_str();
    out->file = site.file.c_str();
    out->line = site.line;
    out->bit = site.bit;
    out->role = site.role;
    out->key_count = static_cast<uint32_t>(site.keys.size());
    for (size_t i = 0; i < site.keys.size() && i < JOBSCOPE_MAX_KEYS; ++i) {
      out->keys[i] = site.keys[i].c_str();
    }
    return 0;
  }

  inline static FakeRecorder* current_ = nullptr;
  host::Reader table_{};
};

}  // namespace jobscope

#endif  // TESTS_COLLECTORS_HOST_FAKE_RECORDER_H_
