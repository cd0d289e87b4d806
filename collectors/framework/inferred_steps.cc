// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/inferred_steps.h"

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string_view>

namespace jobscope::framework {
namespace {

// So many steps another source may end before a silent one has lost its place: a discriminator that
// is trained several times per round does not take it from the generator that came first.
constexpr uint32_t kPatience = 16;

std::atomic<const struct jobscope_trace_writer_table*> g_writer{nullptr};

// Steps ended that nobody wanted: what began before is no begin.
std::atomic<bool> g_unwatched{false};

// Held for a few stores, and for one record. A forked child does not get here: its mask reads 0.
std::mutex g_mutex;

// What follows belongs to the mutex.
struct Source {
  uint64_t id = 0;
  const char* name = nullptr;
  uint32_t site = 0;
};
Source g_source;
uint64_t g_begin_ticks = 0;
int64_t g_number = 0;   // of the step that runs
uint32_t g_others = 0;  // steps that other sources ended since this one did

bool Wanted(const struct jobscope_trace_writer_table* writer) {
  return writer != nullptr && (__atomic_load_n(writer->mask, __ATOMIC_RELAXED) &
                               static_cast<uint32_t>(JOBSCOPE_BIT_STEP)) != 0;
}

void TakeSource(const struct jobscope_trace_writer_table* writer, uint64_t id, const char* name) {
  if (g_source.name == nullptr || std::string_view(g_source.name) != name) {
    const jobscope_site site = {sizeof(jobscope_site),       0, name, "", "", 0, JOBSCOPE_BIT_STEP,
                                JOBSCOPE_ROLE_INFERRED_STEP, 0};
    g_source.site = writer->find_site(&site, nullptr, 0);
    g_source.name = name;
  }
  g_source.id = id;
  g_begin_ticks = 0;
  g_others = 0;
}

}  // namespace

void NoteStepEnd(uint64_t source_id, const char* name) {
  const auto* const writer = g_writer.load(std::memory_order_acquire);
  if (!Wanted(writer)) {
    if (!g_unwatched.load(std::memory_order_relaxed)) g_unwatched.store(true);
    return;
  }
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (g_unwatched.load(std::memory_order_relaxed)) {
    g_unwatched.store(false);
    g_begin_ticks = 0;
  }
  if (g_source.site == 0) {
    TakeSource(writer, source_id, name);
  } else if (g_source.id != source_id) {
    if (++g_others < kPatience) return;
    TakeSource(writer, source_id, name);
  }
  g_others = 0;
  const uint64_t now = writer->step_boundary(g_source.site, g_number, g_begin_ticks);
  if (now == 0) return;  // the program marks its own
  g_begin_ticks = now;
  ++g_number;
}

void ForgetStepBegin(uint64_t source_id) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (g_source.id == source_id) g_begin_ticks = 0;
}

void RecordInferredSteps(const struct jobscope_trace_writer_table* writer) {
  constexpr size_t kNeeded =
      offsetof(struct jobscope_trace_writer_table, step_boundary) + sizeof(writer->step_boundary);
  if (writer == nullptr || writer->size < kNeeded) return;  // of a program with an older recorder
  g_writer.store(writer, std::memory_order_release);
}

}  // namespace jobscope::framework
