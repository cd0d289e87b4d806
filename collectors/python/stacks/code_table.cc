// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/stacks/code_table.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "collectors/python/bridge/gil.h"
#include "collectors/python/bridge/script.h"
#include "collectors/python/bridge/values.h"
#include "common/text/utf8.h"
#include "common/xspace/wire/absl_view.h"

namespace jobscope::python {
namespace {

// Both guarded by the GIL.
intptr_t ExtraIndex(const TraceApi& trace) {
  static const intptr_t index = trace.RequestCodeExtraIndex(nullptr);
  return index;
}
uint64_t NextEpoch() {
  static uint64_t epoch = 0;
  return ++epoch;
}

std::string TextAttribute(const Api& api, Object* object, const char* name) {
  const Ref value(api, api.Object_GetAttrString(object, name));
  if (!value) {
    api.Err_Clear();
    return {};
  }
  return TextOf(api, value.get());
}

}  // namespace

CodeTable::CodeTable(const Api& api, const TraceApi& trace)
    : api_(api), trace_(trace), index_(ExtraIndex(trace)), epoch_(NextEpoch()) {
  Add("(further functions)", false);
  Add("(outer frames)", false);
}

uint32_t CodeTable::IdOf(Object* code) {
  void* extra = nullptr;
  if (index_ >= 0 && trace_.Code_GetExtra(code, index_, &extra) == 0) {
    const auto word = reinterpret_cast<uintptr_t>(extra);
    if (word >> 32 == epoch_) return static_cast<uint32_t>(word);
  }
  return AddCode(code);
}

uint32_t CodeTable::AddCode(Object* code) {
  // Allocates; a pending exception belongs to the program.
  const std::string path = TextAttribute(api_, code, "co_filename");
  const Ref line(api_, api_.Object_GetAttrString(code, "co_firstlineno"));
  const std::string function =
      TextAttribute(api_, code, api_.minor >= 11 ? "co_qualname" : "co_name");
  const uint32_t id = IdOf(path, line ? IntegerOf(api_, line.get()) : 0, function);
  if (index_ >= 0) {
    // Stores a number in what Python types as a pointer. NOLINTNEXTLINE(performance-no-int-to-ptr)
    trace_.Code_SetExtra(code, index_, reinterpret_cast<void*>(epoch_ << 32 | id));
  }
  api_.Err_Clear();
  return id;
}

uint32_t CodeTable::IdOf(std::string_view path, int64_t line, std::string_view function) {
  const size_t slash = path.rfind('/');
  const std::string_view file = slash == std::string_view::npos ? path : path.substr(slash + 1);
  std::string name =
      absl::StrCat("$", xspace::AbslView(file), ":", line, " ", xspace::AbslView(function));
  name.resize(Utf8Prefix(name, kMaxNameBytes).size());
  return Add(std::move(name), absl::StartsWith(xspace::AbslView(path), kScriptFolder));
}

uint32_t CodeTable::Add(std::string name, bool ours) {
  if (const auto known = by_name_.find(name); known != by_name_.end()) return known->second;
  const uint32_t id = size_.load(std::memory_order_relaxed);
  if (id >= kMaxCodes) return kUnknown;
  std::unique_ptr<Chunk>& chunk = chunks_[id / kChunk];
  if (chunk == nullptr) chunk = std::make_unique<Chunk>();
  by_name_.emplace(name, id);
  (*chunk)[id % kChunk] = {std::move(name), ours};
  size_.store(id + 1, std::memory_order_release);
  return id;
}

}  // namespace jobscope::python
