// SPDX-License-Identifier: Apache-2.0
#include "collectors/inferred/inferred_steps.h"

#include <atomic>
#include <cstddef>
#include <string_view>

#include "common/process/own_environment.h"
#include "common/sync/mutex.h"

namespace jobscope::framework {
namespace {

// Number of steps that another source must end to replace a silent one: a discriminator that is
// trained several times per round must not replace the generator that came first.
constexpr uint32_t kStepsToTakeOver = 16;

// Maximum number of parts of one iteration; more means objects that are created anew each time. An
// optimizer whose parameters are swapped for each call has about ten.
constexpr uint32_t kMaxParts = 256;

std::atomic<const struct jobscope_trace_writer_table*> g_writer{nullptr};

// Set when steps ended while nobody watched: the earlier begin is not a valid begin.
std::atomic<bool> g_unwatched{false};

// Held for a few stores and one record. A forked child never locks it: its mask reads 0.
Mutex g_mutex;

// Describes one training loop of the process.
struct Source {
  uint64_t id = 0;
  uint64_t part = 0;  // the part that ends a step
  uint64_t other_part = 0;
  uint32_t parts_between = 0;  // since `part` was seen
  bool has_parts = true;
};

Source g_source ABSL_GUARDED_BY(g_mutex);
const char* g_name ABSL_GUARDED_BY(g_mutex) = nullptr;
uint32_t g_site ABSL_GUARDED_BY(g_mutex) = 0;
uint64_t g_begin_ticks ABSL_GUARDED_BY(g_mutex) = 0;
// Number of the current step; the first one ended unobserved.
int64_t g_number ABSL_GUARDED_BY(g_mutex) = 1;
// The source that may replace the current one, since that last ended a step.
Source g_challenger ABSL_GUARDED_BY(g_mutex);
uint32_t g_challenger_steps ABSL_GUARDED_BY(g_mutex) = 0;
// By other sources, since the challenger last ended a step.
uint32_t g_third_ends ABSL_GUARDED_BY(g_mutex) = 0;

bool Wanted(const struct jobscope_trace_writer_table* writer) {
  return writer != nullptr && (__atomic_load_n(writer->mask, __ATOMIC_RELAXED) &
                               static_cast<uint32_t>(JOBSCOPE_BIT_STEP)) != 0;
}

// Returns whether the end of this part ends a step.
bool EndsStep(Source* source, uint64_t part) {
  if (part == 0 || !source->has_parts) return true;
  const bool first_came_again = part == source->part;
  // The first part may be gone permanently, with its parameters: a part that repeats before it does
  // replaces it.
  if (source->part == 0 || first_came_again || part == source->other_part) {
    source->part = part;
    source->other_part = 0;
    source->parts_between = 0;
    return true;
  }
  if (source->other_part == 0) source->other_part = part;
  // Parts that never repeat carry no information.
  source->has_parts = ++source->parts_between < kMaxParts;
  return !source->has_parts;
}

void NameSteps(const struct jobscope_trace_writer_table* writer, const char* name)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(g_mutex) {
  if (g_name != nullptr && std::string_view(g_name) == name) return;
  const jobscope_site site = {sizeof(jobscope_site),       0, name, "", "", 0, JOBSCOPE_BIT_STEP,
                              JOBSCOPE_ROLE_INFERRED_STEP, 0};
  g_site = writer->find_site(&site, nullptr, 0);
  g_name = name;
}

// Returns whether a source other than the current one replaces it with this end.
bool Challenge(uint64_t source_id, uint64_t part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(g_mutex) {
  if (g_challenger.id != source_id) {
    if (g_challenger_steps > 0 && ++g_third_ends < kStepsToTakeOver) return false;
    g_challenger = Source();
    g_challenger.id = source_id;
    g_challenger_steps = 0;
  }
  g_third_ends = 0;
  return EndsStep(&g_challenger, part) && ++g_challenger_steps >= kStepsToTakeOver;
}

}  // namespace

bool InfersSteps() {
  static const bool infers = OwnVariable("JOBSCOPE_INFER_STEPS") != "0";
  return infers;
}

void NoteStepEnd(uint64_t source_id, const char* name, uint64_t part) {
  const auto* const writer = g_writer.load(std::memory_order_acquire);
  if (!Wanted(writer)) {
    if (!g_unwatched.load(std::memory_order_relaxed)) g_unwatched.store(true);
    return;
  }
  const MutexLock lock(&g_mutex);
  if (g_unwatched.load(std::memory_order_relaxed)) {
    g_unwatched.store(false);
    g_begin_ticks = 0;
  }
  if (g_site == 0) {
    g_source.id = source_id;
  } else if (g_source.id != source_id) {
    if (!Challenge(source_id, part)) return;
    g_source = g_challenger;
    g_begin_ticks = 0;
    part = 0;  // it has been compared
  }
  g_challenger_steps = 0;
  if (!EndsStep(&g_source, part)) return;
  NameSteps(writer, name);
  const uint64_t now = writer->step_boundary(g_site, g_number, g_begin_ticks);
  if (now == 0) return;  // the program marks its own steps
  if (g_begin_ticks != 0) ++g_number;
  g_begin_ticks = now;
}

void ForgetStepBegin(uint64_t source_id) {
  const MutexLock lock(&g_mutex);
  if (g_source.id == source_id) g_begin_ticks = 0;
}

void RecordInferredSteps(const struct jobscope_trace_writer_table* writer) {
  constexpr size_t kNeeded =
      offsetof(struct jobscope_trace_writer_table, step_boundary) + sizeof(writer->step_boundary);
  if (writer == nullptr || writer->size < kNeeded) return;  // an older recorder of another library
  g_writer.store(writer, std::memory_order_release);
}

}  // namespace jobscope::framework
