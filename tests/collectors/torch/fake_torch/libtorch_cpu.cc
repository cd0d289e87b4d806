// SPDX-License-Identifier: Apache-2.0
//
// What the collector finds in the real libtorch_cpu.so, under the same symbols, with the same
// rules: callbacks are taken from the list when an operator begins, and the ones it began with are
// ended; inputs are there while it begins, if a callback needs them.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#define EXPORT __attribute__((visibility("default")))

namespace at {

struct ObserverContext {
  virtual ~ObserverContext() = default;
};

using Sizes = std::vector<std::vector<int64_t>>;

class EXPORT RecordFunction {
 public:
  const Sizes* inputs = nullptr;

  RecordFunction(size_t scope, const char* name, bool is_async);
  ~RecordFunction();
  const char* name() const;
  bool isAsync() const;

 private:
  struct Begun;
  std::string name_;
  bool is_async_;
  std::vector<Begun> begun_;
};

using Start = std::unique_ptr<ObserverContext> (*)(const RecordFunction&);
using End = void (*)(const RecordFunction&, ObserverContext*);

namespace {
Sizes g_next_inputs;  // of the operators that begin from now on
}

struct RecordFunctionCallback {
  Start start;
  End end;
  double sampling_probability;
  std::array<bool, 10> scopes;
  bool needs_inputs, needs_outputs, needs_ids;
};

namespace {
struct Registered {
  uint64_t handle;
  RecordFunctionCallback callback;
};
std::mutex g_mutex;
std::vector<Registered> g_callbacks;
uint64_t g_next = 1;
std::atomic<int> g_change_us{0};

// With the mutex.
void TakeTime() { std::this_thread::sleep_for(std::chrono::microseconds(g_change_us.load())); }
}  // namespace

struct RecordFunction::Begun {
  RecordFunctionCallback callback;
  std::unique_ptr<ObserverContext> context;
};

RecordFunction::RecordFunction(size_t scope, const char* name, bool is_async)
    : name_(name), is_async_(is_async) {
  {
    const std::lock_guard<std::mutex> lock(g_mutex);
    for (const Registered& one : g_callbacks) {
      if (one.callback.scopes[scope]) begun_.push_back({one.callback, nullptr});
    }
  }
  for (const Begun& begun : begun_) {
    if (begun.callback.needs_inputs) inputs = &g_next_inputs;
  }
  for (Begun& begun : begun_) begun.context = begun.callback.start(*this);
  inputs = nullptr;
}

RecordFunction::~RecordFunction() {
  for (const Begun& begun : begun_) begun.callback.end(*this, begun.context.get());
}

const char* RecordFunction::name() const { return name_.c_str(); }
bool RecordFunction::isAsync() const { return is_async_; }

EXPORT uint64_t addGlobalCallback(RecordFunctionCallback callback) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  TakeTime();
  g_callbacks.push_back({g_next, callback});
  return g_next++;
}

EXPORT void removeCallback(uint64_t handle) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  TakeTime();
  g_callbacks.erase(std::remove_if(g_callbacks.begin(), g_callbacks.end(),
                                   [handle](const Registered& r) { return r.handle == handle; }),
                    g_callbacks.end());
}

}  // namespace at

namespace torch::profiler::impl {

std::string g_next_type = "float";  // of the elements of each input

EXPORT at::Sizes inputSizes(const at::RecordFunction& operation, bool) {
  if (operation.inputs == nullptr) throw std::logic_error("not within a start function");
  if (std::string(operation.name()) == "aten::nested") throw std::runtime_error("has no sizes");
  return *operation.inputs;
}

EXPORT std::vector<std::string> inputTypes(const at::RecordFunction& operation) {
  if (operation.inputs == nullptr) throw std::logic_error("not within a start function");
  return std::vector<std::string>(operation.inputs->size(), g_next_type);
}

struct SaveNcclMetaConfig {
  bool truncate, metadata, inputs, outputs;
};

EXPORT std::unordered_map<std::string, std::string> saveNcclMeta(const at::RecordFunction&,
                                                                 const SaveNcclMetaConfig& config) {
  if (!config.metadata || config.inputs || config.outputs) throw std::logic_error("not so");
  return {
      {"Collective name", "\"allreduce\""}, {"dtype", "\"BFloat16\""}, {"In msg nelems", "1024"},
      {"Out msg nelems", "1024"},           {"Group size", "16"},      {"Seq", "41"},
      {"Process Group Name", "\"mesh_dp\""}};
}

}  // namespace torch::profiler::impl

// For the test.
extern "C" {
EXPORT void fake_torch_set_inputs(const at::Sizes* sizes) { at::g_next_inputs = *sizes; }
EXPORT void fake_torch_set_input_type(const char* type) {
  torch::profiler::impl::g_next_type = type;
}
EXPORT void fake_torch_set_change_us(int us) { at::g_change_us = us; }
EXPORT int fake_torch_flying_exceptions() { return std::uncaught_exceptions(); }
EXPORT void* fake_torch_begin(size_t scope, const char* name, bool is_async) {
  return new at::RecordFunction(scope, name, is_async);
}
EXPORT void fake_torch_end(void* operation) { delete static_cast<at::RecordFunction*>(operation); }
EXPORT size_t fake_torch_callbacks() {
  const std::lock_guard<std::mutex> lock(at::g_mutex);
  return at::g_callbacks.size();
}
}
