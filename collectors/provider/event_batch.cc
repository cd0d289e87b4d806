// SPDX-License-Identifier: Apache-2.0
#include "collectors/provider/event_batch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "common/text/utf8.h"

namespace jobscope::provider {
namespace {

constexpr size_t kMaxNameBytes = 1024;
constexpr size_t kMaxTextBytes = 4096;

bool MakesSense(const jobscope_provider_event& event) {
  if (event.name == nullptr || event.name[0] == '\0' || event.duration_ns < 0) return false;
  if (event.kind == JOBSCOPE_PROVIDER_COUNTER) return std::isfinite(event.value);
  if (event.kind != JOBSCOPE_PROVIDER_SPAN) return false;
  if (event.arg_count > 0 && event.args == nullptr) return false;
  for (size_t i = 0; i < std::min<size_t>(event.arg_count, JOBSCOPE_PROVIDER_MAX_ARGS); ++i) {
    const jobscope_provider_arg& arg = event.args[i];
    if (arg.key == nullptr || arg.key[0] == '\0' || arg.type < JOBSCOPE_PROVIDER_INT64 ||
        arg.type > JOBSCOPE_PROVIDER_UINT64) {
      return false;
    }
  }
  return true;
}

}  // namespace

EventBatch::Text EventBatch::Keep(const char* text, size_t max_bytes) {
  const std::string_view cut = Utf8Prefix({text, strnlen(text, max_bytes + 1)}, max_bytes);
  const Text kept = {static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(cut.size())};
  texts_.append(cut);
  return kept;
}

bool EventBatch::Add(const jobscope_provider_event& given) {
  if (!MakesSense(given)) return false;
  Event event;
  event.begin_ns = given.begin_ns;
  event.duration_ns = given.duration_ns;
  event.thread_id = given.thread_id;
  event.value = given.value;
  event.is_counter = given.kind == JOBSCOPE_PROVIDER_COUNTER;
  event.name = Keep(given.name, kMaxNameBytes);
  if (given.line != nullptr) {
    event.has_line = true;
    event.line = Keep(given.line, kMaxNameBytes);
  }
  if (!event.is_counter) {
    event.first_arg = static_cast<uint32_t>(args_.size());
    event.arg_count =
        static_cast<uint16_t>(std::min<size_t>(given.arg_count, JOBSCOPE_PROVIDER_MAX_ARGS));
    for (size_t i = 0; i < event.arg_count; ++i) {
      Arg arg;
      arg.key = Keep(given.args[i].key, kMaxNameBytes);
      arg.type = given.args[i].type;
      switch (arg.type) {
        case JOBSCOPE_PROVIDER_INT64:
          arg.int64_value = given.args[i].value.int64_value;
          break;
        case JOBSCOPE_PROVIDER_UINT64:
          arg.int64_value = static_cast<int64_t>(given.args[i].value.uint64_value);
          break;
        case JOBSCOPE_PROVIDER_DOUBLE:
          arg.double_value = given.args[i].value.double_value;
          break;
        default:
          if (const char* const text = given.args[i].value.text; text != nullptr) {
            arg.text = Keep(text, kMaxTextBytes);
          }
      }
      args_.push_back(arg);
    }
  }
  events_.push_back(event);
  return true;
}

}  // namespace jobscope::provider
