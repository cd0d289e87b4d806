// SPDX-License-Identifier: Apache-2.0
#include "collectors/torch/torch_callbacks.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/attributes.h"
#include "collectors/torch/torch_collectives.h"
#include "collectors/torch/torch_names.h"
#include "collectors/torch/torch_pending.h"
#include "collectors/torch/torch_process_group.h"
#include "collectors/torch/torch_registration.h"
#include "collectors/torch/torch_shapes.h"
#include "collectors/torch/torch_steps.h"

namespace jobscope::framework::torch {
namespace {

// Set before the first callback is registered, constant afterwards.
const struct jobscope_trace_writer_table* g_writer = nullptr;
const uint32_t* g_mask = nullptr;
decltype(jobscope_trace_writer_table::end_own) g_end_own = nullptr;
Api g_api;
NameSites* g_names = nullptr;

constexpr char kGloo[] = "gloo:";
constexpr char kDistributed[] = "c10d::";
std::atomic<bool> g_gloo_seen{false};

PendingCollectives* Pending() {
  static auto* const pending = new PendingCollectives;
  return pending;
}

std::atomic<uint64_t> g_crossed{0};
std::atomic<uint32_t> g_refused_shapes{0};

// State of one running operator. Small, because each operator allocates one.
struct Scope : ObserverContext {
  uint32_t site = 0;
  bool is_optimizer_step = false;
  bool is_async = false;
  bool has_texts = false;  // is a ScopeWithTexts
  jobscope_token token = {0, 0};
  uint64_t async_id = 0;
};

struct ScopeWithTexts final : Scope {
  std::string name;  // if it is an argument
  std::string shapes;
};

jobscope_arg NumberArg(uint64_t value) {
  jobscope_arg arg = {};
  arg.type = JOBSCOPE_ARG_UINT64;
  arg.value.uint64_value = value;
  return arg;
}

jobscope_arg TextArg(const std::string& text) {
  jobscope_arg arg = {};
  arg.type = JOBSCOPE_ARG_STRING;
  arg.length = static_cast<uint32_t>(text.size());
  arg.value.text = text.data();
  return arg;
}

jobscope_arg Int64Arg(const std::optional<int64_t>& value) {
  jobscope_arg arg = {};  // type none: no stat
  if (!value.has_value()) return arg;
  arg.type = JOBSCOPE_ARG_INT64;
  arg.value.int64_value = *value;
  return arg;
}

// For names with few values: uses the recorder's id of the text, which keeps events small.
jobscope_arg NameArg(const std::string& text) {
  jobscope_arg arg = {};
  if (text.empty()) return arg;
  arg.value.uint64_value = g_writer->intern(text.data(), text.size());
  if (arg.value.uint64_value == 0) return TextArg(text);
  arg.type = JOBSCOPE_ARG_NAME;
  return arg;
}

// Returns the name if it is an argument.
std::string NameText(const NameSites::Found& found, const char* name) {
  if (!found.name_as_argument) return {};
  return std::string(name, strnlen(name, JOBSCOPE_MAX_STRING + 1));
}

void BeginAsync(const Scope& scope, const std::string& name) {
  const jobscope_arg args[2] = {NumberArg(scope.async_id), TextArg(name)};
  g_writer->event(scope.site, JOBSCOPE_KIND_ASYNC_BEGIN, args, name.empty() ? 1 : 2);
}

// In the order of the site's keys (NameSites).
void BeginCollective(const Scope& scope, const std::string& name_text, const void* record_function,
                     const char* name) {
  CollectiveFacts facts = ReadCollective(g_api, record_function, name);
  if (std::strncmp(name, kGloo, sizeof(kGloo) - 1) == 0) {
    g_gloo_seen.store(true, std::memory_order_relaxed);
    Pending()->Take(FirstTensorKey(record_function), &facts);
  }
  const jobscope_arg args[] = {NumberArg(scope.async_id), NameArg(facts.process_group),
                               Int64Arg(facts.sequence),  Int64Arg(facts.bytes),
                               NameArg(facts.dtype),      Int64Arg(facts.group_size),
                               TextArg(name_text)};
  const uint32_t count = sizeof(args) / sizeof(args[0]);
  g_writer->event(scope.site, JOBSCOPE_KIND_ASYNC_BEGIN, args,
                  name_text.empty() ? count - 1 : count);
}

std::unique_ptr<ObserverContext> BeginAsyncScope(Kind kind, const void* record_function,
                                                 const char* name) {
  const NameSites::Found found = g_names->Find(kind, name);
  auto scope = std::make_unique<Scope>();
  scope->site = found.site;
  scope->is_async = true;
  scope->async_id = g_writer->next_id();
  if (scope->async_id == 0) return nullptr;
  const std::string name_text = NameText(found, name);
  if (kind == Kind::kCollective) {
    BeginCollective(*scope, name_text, record_function, name);
  } else {
    BeginAsync(*scope, name_text);
  }
  return scope;
}

// Returns false if the recorder refused it, or in a forked child.
bool BeginScope(NameSites::Found found, Scope* scope) {
  scope->site = found.site;
  scope->is_optimizer_step = found.is_optimizer_step;
  scope->token = g_writer->begin(found.site);
  if (scope->token.begin_ticks == 0) return false;
  if (found.is_optimizer_step) EnterOptimizerScope();
  return true;
}

// Called before the scope begins: reading the shapes does not count for the operator.
void TakeShapes(const void* record_function, std::string* shapes) {
  if (g_refused_shapes.load(std::memory_order_relaxed) >= kMaxRefusals) return;
  if (ReadShapes(g_api, record_function, shapes) == ShapesRead::kRefused) {
    g_refused_shapes.fetch_add(1, std::memory_order_relaxed);
  }
}

// Not inline, like the other functions that few operators need: their local variables would cost
// every operator saved registers and a check of the stack.
ABSL_ATTRIBUTE_NOINLINE std::unique_ptr<ObserverContext> BeginWithTexts(NameSites::Found found,
                                                                        const void* record_function,
                                                                        const char* name,
                                                                        bool shapes) {
  auto scope = std::make_unique<ScopeWithTexts>();
  scope->has_texts = true;
  scope->name = NameText(found, name);
  if (shapes) TakeShapes(record_function, &scope->shapes);
  if (!BeginScope(found, scope.get())) return nullptr;
  return scope;
}

inline std::unique_ptr<ObserverContext> BeginOnThread(Kind kind, const void* record_function,
                                                      const char* name, bool shapes) {
  const NameSites::Found found = g_names->Find(kind, name);
  if (shapes || found.name_as_argument) return BeginWithTexts(found, record_function, name, shapes);
  auto scope = std::make_unique<Scope>();
  if (!BeginScope(found, scope.get())) return nullptr;
  return scope;
}

ABSL_ATTRIBUTE_NOINLINE std::unique_ptr<ObserverContext> BeginUserScope(const void* record_function,
                                                                        const char* name) {
  const bool is_async = g_api.is_async != nullptr && g_api.is_async(record_function);
  const Kind kind = NameSites::KindOfUserScope(name, is_async);
  return is_async ? BeginAsyncScope(kind, record_function, name)
                  : BeginOnThread(kind, record_function, name, /*shapes=*/false);
}

// Begins a scope that is not recorded but may end a step: a session that waits for a step has only
// the bits of steps set.
std::unique_ptr<ObserverContext> BeginUnrecorded(const void* record_function) {
  const char* const name = g_api.name(record_function);
  if (name == nullptr) return nullptr;
  const NameSites::Found found = g_names->Find(Kind::kUser, name);
  if (!found.is_optimizer_step) return nullptr;
  auto scope = std::make_unique<Scope>();
  scope->site = found.site;
  scope->is_optimizer_step = true;
  EnterOptimizerScope();
  return scope;
}

template <Kind kKind, bool kShapes = false>
std::unique_ptr<ObserverContext> OnStart(const void* record_function) {
  if (kKind == Kind::kBackward && ScopesAreSteps()) NoteBackward();
  const uint32_t mask = __atomic_load_n(g_mask, __ATOMIC_RELAXED);
  if ((mask & LevelOf(kKind)) != 0) {
    const char* const name = g_api.name(record_function);
    if (name == nullptr) return nullptr;
    if (kKind == Kind::kUser) return BeginUserScope(record_function, name);
    return BeginOnThread(kKind, record_function, name, kShapes);
  }
  if (kKind == Kind::kUser && (mask & JOBSCOPE_BIT_STEP) != 0 && ScopesAreSteps()) {
    return BeginUnrecorded(record_function);
  }
  return nullptr;
}

// For a capture with only user scopes.
std::unique_ptr<ObserverContext> OnUnrecordedBackward(const void*) {
  NoteBackward();
  return nullptr;
}

// Runs beside the callback that records operators: keeps the facts of collectives' calls that their
// works lack.
std::unique_ptr<ObserverContext> OnCollectiveCall(const void* record_function) {
  const char* const name = g_api.name(record_function);
  if (name == nullptr || std::strncmp(name, kDistributed, sizeof(kDistributed) - 1) != 0 ||
      (__atomic_load_n(g_mask, __ATOMIC_RELAXED) & LevelOf(Kind::kCollective)) == 0) {
    return nullptr;
  }
  CollectiveFacts facts;
  TensorKeys keys;
  if (!ReadProcessGroup(g_api, record_function, &facts, &keys)) return nullptr;
  // Sends and receives are between two ranks, and not counted.
  const bool is_collective =
      std::strstr(name, "send") == nullptr && std::strstr(name, "recv") == nullptr;
  if (!is_collective) facts.sequence.reset();
  Pending()->Add(facts, keys);
  return nullptr;
}

// In the order of the site's keys (NameSites).
ABSL_ATTRIBUTE_NOINLINE bool EndWithTexts(const ScopeWithTexts& scope) {
  std::array<jobscope_arg, 2> args;
  uint32_t count = 0;
  if (!scope.name.empty()) args[count++] = TextArg(scope.name);
  if (!scope.shapes.empty()) args[count++] = TextArg(scope.shapes);
  return g_end_own(scope.site, scope.token, args.data(), count) != 0;
}

// Returns false if another thread began the scope.
bool EndScope(const Scope& scope) {
  if (scope.has_texts) return EndWithTexts(static_cast<const ScopeWithTexts&>(scope));
  return g_end_own(scope.site, scope.token, nullptr, 0) != 0;
}

ABSL_ATTRIBUTE_NOINLINE void EndAsyncScope(const Scope& scope) {
  const jobscope_arg id = NumberArg(scope.async_id);
  g_writer->event(scope.site, JOBSCOPE_KIND_ASYNC_END, &id, 1);
}

void OnEnd(const void*, ObserverContext* context) {
  if (context == nullptr) return;
  const Scope& scope = *static_cast<const Scope*>(context);  // from OnStart
  if (scope.is_async) return EndAsyncScope(scope);
  if (scope.token.begin_ticks != 0 && !EndScope(scope)) {
    g_crossed.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (scope.is_optimizer_step) LeaveOptimizerScope(scope.site);
}

// Of a recorder of an older library, which records a scope on whatever thread ends it.
uint32_t EndOnAnyThread(uint32_t site, jobscope_token token, const jobscope_arg* args,
                        uint32_t arg_count) {
  g_writer->end_args(site, token, args, arg_count);
  return 1;
}

Callback CallbackOf(Callback::StartFunction start, bool inputs,
                    std::initializer_list<size_t> scopes) {
  Callback callback;
  callback.needs_inputs = inputs;
  callback.start = start;
  callback.end = &OnEnd;
  for (const size_t scope : scopes) callback.scopes[scope] = true;
  return callback;
}

}  // namespace

bool CanDiscard(const struct jobscope_trace_writer_table* writer) {
  constexpr size_t kNeeded =
      offsetof(struct jobscope_trace_writer_table, discard) + sizeof(writer->discard);
  return writer->size >= kNeeded;
}

void AddCallbacks(const Api& api, const struct jobscope_trace_writer_table* writer,
                  const CallbackOptions& options) {
  if (g_names == nullptr) {
    g_api = api;
    g_writer = writer;
    g_mask = writer->mask;
    constexpr size_t kWithEndOwn =
        offsetof(struct jobscope_trace_writer_table, end_own) + sizeof(writer->end_own);
    g_end_own = writer->size >= kWithEndOwn ? writer->end_own : &EndOnAnyThread;
    g_names = new NameSites(writer);
  }
  g_refused_shapes.store(0, std::memory_order_relaxed);
  // The callback determines the kind of scope: querying it would be another call per operator.
  // Inputs are for collectives; other user scopes have none.
  std::vector<Callback> callbacks = {
      CallbackOf(&OnStart<Kind::kUser>, /*inputs=*/true, {kScopeUser})};
  if (options.operators) {
    const bool shapes = options.shapes && g_api.input_sizes != nullptr;
    callbacks.push_back(
        CallbackOf(shapes ? &OnStart<Kind::kBackward, true> : &OnStart<Kind::kBackward>, shapes,
                   {kScopeBackward}));
    callbacks.push_back(
        CallbackOf(shapes ? &OnStart<Kind::kOperator, true> : &OnStart<Kind::kOperator>, shapes,
                   {kScopeFunction, kScopeTorchScript, kScopeCustomClass, kScopeStaticRuntimeOp,
                    kScopeStaticRuntimeModel}));
  } else if (ScopesAreSteps()) {
    callbacks.push_back(CallbackOf(&OnUnrecordedBackward, /*inputs=*/false, {kScopeBackward}));
  }
  Register(g_api, callbacks);
}

bool WantsProcessGroups() { return g_gloo_seen.load(std::memory_order_relaxed); }

void AddProcessGroups() {
  RegisterOnce(CallbackOf(&OnCollectiveCall, /*inputs=*/true, {kScopeFunction}));
}

void RemoveCallbacks() { Unregister(); }

uint32_t RefusedShapes() { return g_refused_shapes.load(std::memory_order_relaxed); }

uint64_t CrossedThreads() { return g_crossed.load(std::memory_order_relaxed); }

}  // namespace jobscope::framework::torch
