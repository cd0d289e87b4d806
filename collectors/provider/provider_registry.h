// SPDX-License-Identifier: Apache-2.0
//
// The providers of this process, by name: those that registered before there was anybody to capture
// for, too.
#ifndef COLLECTORS_PROVIDER_PROVIDER_REGISTRY_H_
#define COLLECTORS_PROVIDER_PROVIDER_REGISTRY_H_

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "collectors/provider/provider_collector.h"

namespace jobscope {

// Thread-safe. A name's collector, once made, lives as long as the process; so names are bounded.
class ProviderRegistry {
 public:
  static constexpr size_t kMaxNames = 32;
  static constexpr size_t kMaxNameBytes = 40;

  // The process's; never destroyed. Making it starts nothing, so that a process which registers and
  // forks has children that may do all.
  static ProviderRegistry& Get();

  // INVALID_ARGUMENT: the name, or no callback at all; ALREADY_EXISTS; RESOURCE_EXHAUSTED: too many
  // names.
  absl::Status Register(std::string_view name, const ProviderCallbacks& callbacks);
  // NOT_FOUND; UNAVAILABLE (ProviderCollector::Unregister).
  absl::Status Unregister(std::string_view name);

  // `add` is called for each collector, now and later, once each; never again after the second
  // call of this function. It must not call back.
  void SetListener(std::function<void(ProviderCollector*)> add);

 private:
  std::mutex mutex_;
  std::map<std::string, ProviderCollector*, std::less<>> collectors_;
  std::function<void(ProviderCollector*)> add_;
};

}  // namespace jobscope

#endif  // COLLECTORS_PROVIDER_PROVIDER_REGISTRY_H_
