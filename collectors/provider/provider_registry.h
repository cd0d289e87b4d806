// SPDX-License-Identifier: Apache-2.0
//
// Registers the providers of this process by name, also before a server exists.
#ifndef COLLECTORS_PROVIDER_PROVIDER_REGISTRY_H_
#define COLLECTORS_PROVIDER_PROVIDER_REGISTRY_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "collectors/provider/provider_collector.h"
#include "common/sync/mutex.h"

namespace jobscope {

// Maps names to provider collectors. Thread-safe. A collector lives as long as the process, so the
// number of names is bounded.
class ProviderRegistry {
 public:
  static constexpr size_t kMaxNames = 32;
  static constexpr size_t kMaxNameBytes = 40;

  // Returns the registry of the process; never destroyed. Creating it starts nothing, so that
  // forked children of a process that has registered providers can use it, too.
  static ProviderRegistry& Get();

  // Installs the fork pause: no child is forked while another thread holds the locks.
  ProviderRegistry();

  // Registers a provider. INVALID_ARGUMENT: bad name, or no callback at all; ALREADY_EXISTS;
  // RESOURCE_EXHAUSTED: too many names.
  absl::Status Register(std::string_view name, const ProviderCallbacks& callbacks);
  // Removes a provider. NOT_FOUND; UNAVAILABLE (ProviderCollector::Unregister).
  absl::Status Unregister(std::string_view name);

  // Sets the function called once for each present and future collector. A second call of
  // SetListener ends this. `add` must not call back.
  void SetListener(std::function<void(ProviderCollector*)> add);

 private:
  absl::Status Add(std::string_view name, const ProviderCallbacks& callbacks);

  Mutex mutex_;
  std::map<std::string, ProviderCollector*, std::less<>> collectors_ ABSL_GUARDED_BY(mutex_);
  std::function<void(ProviderCollector*)> add_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope

#endif  // COLLECTORS_PROVIDER_PROVIDER_REGISTRY_H_
