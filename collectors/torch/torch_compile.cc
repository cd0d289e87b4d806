// SPDX-License-Identifier: Apache-2.0
#include "collectors/torch/torch_compile.h"

#include <atomic>
#include <cstdint>
#include <utility>

#include "collectors/inferred/compilations.h"
#include "collectors/torch/torch_callbacks.h"

namespace jobscope::framework::torch {
namespace {

constexpr uint32_t kKeyCount = 3;
constexpr const char* kKeys[kKeyCount] = {kCompilationStat, "trigger", "compile_id"};

std::atomic<const struct jobscope_trace_writer_table*> g_writer{nullptr};

jobscope_site g_site = {
    sizeof(jobscope_site), 0, "torch.compile", "compilation", nullptr, 0, JOBSCOPE_BIT_LEVEL1,
    JOBSCOPE_ROLE_SCOPE,   0};

// PyTorch reports only the outermost compilation: of several threads that compile at once, the
// begin of the first one and the end of the last one.
thread_local jobscope_token t_compilation = {0, 0};
jobscope_token g_begun = {0, 0};  // the last one that has not ended; guarded by the GIL

jobscope_arg TextArg(const std::string& text) {
  jobscope_arg arg = {};
  if (text.empty()) return arg;
  arg.type = JOBSCOPE_ARG_STRING;
  arg.length = static_cast<uint32_t>(text.size());
  arg.value.text = text.data();
  return arg;
}

}  // namespace

void RecordCompilations(const struct jobscope_trace_writer_table* writer) { g_writer = writer; }

void BeginCompilation() {
  t_compilation = {0, 0};
  const auto* const writer = g_writer.load();
  if (writer == nullptr) return;
  if ((__atomic_load_n(writer->mask, __ATOMIC_RELAXED) & g_site.bit) == 0) return;
  t_compilation = writer->begin(writer->register_site(&g_site, kKeys, kKeyCount));
  g_begun = t_compilation;
}

void EndCompilation(const std::string& trigger, const std::string& compile_id) {
  const jobscope_token token = t_compilation;
  t_compilation = {0, 0};
  const jobscope_token begun = std::exchange(g_begun, {0, 0});
  // A token that is not the last one begun is left from a compilation that ended on another thread.
  if (token.begin_ticks == 0 || token.begin_ticks != begun.begin_ticks ||
      token.place != begun.place) {
    // Begun on another thread, which would have it open for ever.
    const auto* const writer = g_writer.load();
    if (begun.begin_ticks != 0 && CanDiscard(writer)) writer->discard(begun);
    return;
  }
  jobscope_arg is_compilation = {};
  is_compilation.type = JOBSCOPE_ARG_INT64;
  is_compilation.value.int64_value = 1;
  const jobscope_arg args[kKeyCount] = {is_compilation, TextArg(trigger), TextArg(compile_id)};
  g_writer.load()->end_args(g_site.id, token, args, kKeyCount);
}

}  // namespace jobscope::framework::torch
