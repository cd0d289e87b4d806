// SPDX-License-Identifier: Apache-2.0
#include "collectors/provider/provider_registry.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/process/fork_pause.h"

namespace jobscope {
namespace {

// Names of present and future collectors of jobscope, and words of --frameworks.
constexpr std::array<std::string_view, 21> kReserved = {
    "auto", "none",  "all",        "host", "cuda",  "cupti",  "nvtx",
    "nvml", "nccl",  "system",     "gc",   "gpu",   "python", "step",
    "xla",  "torch", "tensorflow", "jax",  "keras", "tpu",    "jobscope"};

bool IsLetter(char c) { return c >= 'a' && c <= 'z'; }
bool MayBeInName(char c) {
  return IsLetter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

absl::Status CheckName(std::string_view name) {
  if (name.empty() || name.size() > ProviderRegistry::kMaxNameBytes || !IsLetter(name[0]) ||
      !std::all_of(name.begin(), name.end(), MayBeInName)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a provider's name has 1 to ", ProviderRegistry::kMaxNameBytes,
                     " characters of a-z, 0-9, '_', '-' and '.', and begins with a letter"));
  }
  if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end()) {
    return absl::InvalidArgumentError(absl::StrCat("the name \"", std::string(name),
                                                   "\" is reserved for jobscope's own collectors"));
  }
  return absl::OkStatus();
}

}  // namespace

ProviderRegistry& ProviderRegistry::Get() {
  static auto* const registry = new ProviderRegistry;
  return *registry;
}

ProviderRegistry::ProviderRegistry() { InstallForkPause(); }

absl::Status ProviderRegistry::Register(std::string_view name, const ProviderCallbacks& callbacks) {
  if (absl::Status status = CheckName(name); !status.ok()) return status;
  if (callbacks.arm == nullptr && callbacks.start == nullptr && callbacks.stop == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the provider \"", std::string(name), "\" has no callback at all"));
  }
  absl::Status status;
  WhileNobodyForks([&] { status = Add(name, callbacks); });
  return status;
}

absl::Status ProviderRegistry::Add(std::string_view name, const ProviderCallbacks& callbacks) {
  const MutexLock lock(&mutex_);
  auto found = collectors_.find(name);
  const bool made = found == collectors_.end();
  if (made) {
    if (collectors_.size() >= kMaxNames) {
      return absl::ResourceExhaustedError(
          absl::StrCat("this process has had ", kMaxNames,
                       " providers of different names: register under one of those again"));
    }
    auto* const collector = new ProviderCollector(name, static_cast<int>(collectors_.size()));
    found = collectors_.emplace(std::string(name), collector).first;
  }
  // Registered before it joins: no session sees it unregistered.
  absl::Status status = found->second->Register(callbacks);
  if (made && add_) add_(found->second);
  return status;
}

absl::Status ProviderRegistry::Unregister(std::string_view name) {
  ProviderCollector* collector = nullptr;
  absl::Status status;
  WhileNobodyForks([&] {
    const MutexLock lock(&mutex_);
    const auto found = collectors_.find(name);
    if (found == collectors_.end()) {
      status = absl::NotFoundError(
          absl::StrCat("no provider \"", std::string(name), "\" is registered"));
    } else if (add_) {
      collector = found->second;
    } else {
      status = found->second->Unregister();  // without sessions no callback runs: it does not wait
    }
  });
  // May call and wait for callbacks, which may fork.
  return collector != nullptr ? collector->Unregister() : status;
}

void ProviderRegistry::SetListener(std::function<void(ProviderCollector*)> add) {
  const MutexLock lock(&mutex_);
  add_ = std::move(add);
  if (!add_) return;
  for (const auto& [name, collector] : collectors_) add_(collector);
}

}  // namespace jobscope
