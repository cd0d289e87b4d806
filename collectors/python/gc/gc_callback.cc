// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/gc/gc_callback.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectors/python/bridge/gil.h"
#include "collectors/python/bridge/values.h"
#include "collectors/python/stacks/trace_api.h"

namespace jobscope::python {
namespace {

constexpr uint32_t kKeyCount = 2;
constexpr const char* kKeys[kKeyCount] = {"generation", "collected"};

// Set when the function is added for the first time, constant afterwards.
const Api* g_api = nullptr;
const struct jobscope_trace_writer_table* g_writer = nullptr;
// The function object. Created once, kept. Guarded by the GIL.
Object* g_function = nullptr;

jobscope_site g_site = {sizeof(jobscope_site), 0, "gc", "python", nullptr, 0, JOBSCOPE_BIT_LEVEL1,
                        JOBSCOPE_ROLE_SCOPE,   0};

// The collection that runs; begin_ticks 0: none is recorded. Python runs one at a time, on any
// thread, and finalizers may release the GIL meanwhile. Guarded by the GIL.
jobscope_token g_collection = {0, 0};

jobscope_arg Figure(Object* info, const char* key) {
  jobscope_arg arg = {};
  Object* const value = g_api->Dict_GetItemString(info, key);
  if (value == nullptr) return arg;
  arg.type = JOBSCOPE_ARG_INT64;
  arg.value.int64_value = IntegerOf(*g_api, value);
  return arg;
}

// Ends a collection without a record: the program removed the function from the list meanwhile, so
// that Python never reported the end.
void DropUnended() {
  const jobscope_token unended = std::exchange(g_collection, {0, 0});
  constexpr size_t kNeeded =
      offsetof(struct jobscope_trace_writer_table, discard) + sizeof(g_writer->discard);
  if (unended.begin_ticks != 0 && g_writer->size >= kNeeded) g_writer->discard(unended);
}

void Begin() {
  DropUnended();
  const uint32_t mask = __atomic_load_n(g_writer->mask, __ATOMIC_RELAXED);
  if ((mask & g_site.bit) == 0) return;
  g_collection = g_writer->begin(g_writer->register_site(&g_site, kKeys, kKeyCount));
}

void End(Object* info) {
  if (g_collection.begin_ticks == 0) return;
  const jobscope_arg args[kKeyCount] = {Figure(info, kKeys[0]), Figure(info, kKeys[1])};
  g_writer->end_args(g_site.id, std::exchange(g_collection, {0, 0}), args, kKeyCount);
}

// callback(phase, info). Ignored in a forked child, which inherits its parent's list of callbacks,
// and while Python shuts down: its collections then are not part of the program.
Object* OnCollection(Object*, Object** arguments, intptr_t count) {
  const Api& api = *g_api;
  if (count == 2 && !Forked() && !ShuttingDown()) {
    const char* const phase = api.Unicode_AsUTF8AndSize(arguments[0], nullptr);
    if (phase != nullptr && std::strcmp(phase, "start") == 0) {
      Begin();
    } else if (phase != nullptr && std::strcmp(phase, "stop") == 0) {
      End(arguments[1]);
    }
    api.Err_Clear();
  }
  api.IncRef(api.none);
  return api.none;
}

MethodDefinition g_method = {
    "jobscope_gc", reinterpret_cast<CFunction>(reinterpret_cast<void (*)()>(&OnCollection)),
    kMethodFastcall, nullptr};

// Returns gc.callbacks. Runs no code of the program: gc is part of the interpreter.
Ref Callbacks(const Api& api) {
  const Ref module(api, api.Import_ImportModule("gc"));
  return Ref(api, module ? api.Object_GetAttrString(module.get(), "callbacks") : nullptr);
}

Object* Function(const Api& api) {
  api.IncRef(g_function);
  return g_function;
}

}  // namespace

absl::Status AddGcCallback(const Api& api, const struct jobscope_trace_writer_table* writer) {
  if (g_function == nullptr) {
    g_api = &api;
    g_writer = writer;
    g_function = api.CFunction_NewEx(&g_method, nullptr, nullptr);
  }
  const Ref callbacks = g_function != nullptr ? Callbacks(api) : Ref();
  const Ref count(api,
                  callbacks ? CallMethod(api, callbacks.get(), "count", {Function(api)}) : nullptr);
  if (count && IntegerOf(api, count.get()) > 0) return absl::OkStatus();
  const Ref added(api,
                  count ? CallMethod(api, callbacks.get(), "append", {Function(api)}) : nullptr);
  if (added) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("gc.callbacks: ", TakeException(api, "")));
}

void RemoveGcCallback(const Api& api) {
  // A collection that runs must report its end: its scope would remain open on its thread.
  if (g_function == nullptr || g_collection.begin_ticks != 0) return;
  const Ref callbacks = Callbacks(api);
  const Ref removed(
      api, callbacks ? CallMethod(api, callbacks.get(), "remove", {Function(api)}) : nullptr);
  api.Err_Clear();  // ValueError: the program has cleared the list
}

}  // namespace jobscope::python
