// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/worker/cupti_subscriber.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace jobscope::gpu_test {
namespace {

using Callback = void (*)(void* userdata, uint32_t domain, uint32_t cbid, const void* data);

// CUpti_SubscriberParams of 13.0.
struct Params {
  size_t struct_size;
  const char* name;
  char* old_name;
  size_t old_name_size;
};

void Ignore(void* /*userdata*/, uint32_t /*domain*/, uint32_t /*cbid*/, const void* /*data*/) {}

template <typename Function>
Function Find(void* library, const char* name) {
  void* const found = dlsym(library, name);
  Function function = nullptr;
  std::memcpy(&function, &found, sizeof(found));
  return function;
}

}  // namespace

std::string CuptiSubscriber::Subscribe(const std::string& path, const std::string& name) {
  library_ = dlopen(path.c_str(), RTLD_NOW);
  if (library_ == nullptr) return dlerror();
  int32_t result = -1;
  const auto named =
      Find<int32_t (*)(void**, Callback, void*, Params*)>(library_, "cuptiSubscribe_v2");
  if (named != nullptr && !name.empty()) {
    char old_name[128] = {};
    Params params{sizeof(Params), name.c_str(), old_name, sizeof(old_name) - 1};
    result = named(&subscriber_, &Ignore, nullptr, &params);
  } else if (const auto plain =
                 Find<int32_t (*)(void**, Callback, void*)>(library_, "cuptiSubscribe")) {
    result = plain(&subscriber_, &Ignore, nullptr);
  }
  return result == 0 ? "" : "subscribing to " + path + ": result " + std::to_string(result);
}

std::string CuptiSubscriber::Unsubscribe() {
  if (library_ == nullptr) return "nothing is subscribed";
  const auto unsubscribe = Find<int32_t (*)(void*)>(library_, "cuptiUnsubscribe");
  const int32_t result = unsubscribe == nullptr ? -1 : unsubscribe(subscriber_);
  return result == 0 ? "" : "cuptiUnsubscribe: result " + std::to_string(result);
}

}  // namespace jobscope::gpu_test
