// SPDX-License-Identifier: Apache-2.0
//
// Implements the C ABI of providers: collectors that other libraries register.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectors/provider/provider_registry.h"
#include "common/process/fork_pause.h"
#include "jobscope/jobscope_c.h"
#include "jobscope/provider.h"
#include "server/c_api/c_edge.h"
#include "server/guard/fork_guard.h"

namespace jobscope {
namespace {

int CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return JOBSCOPE_OK;
    case absl::StatusCode::kInvalidArgument:
      return JOBSCOPE_E_INVALID;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return JOBSCOPE_E_BUSY;
    case absl::StatusCode::kNotFound:
      return JOBSCOPE_E_STATE;
    case absl::StatusCode::kAborted:
      return JOBSCOPE_E_FORKED;
    default:
      return JOBSCOPE_E_INTERNAL;
  }
}

int Answer(const absl::Status& status, char* error, size_t error_size) {
  CopyOut(std::string(status.message()), error, error_size);
  return CodeOf(status);
}

// Cuts a name longer than any valid one; it is then refused.
std::string_view NameOf(const char* name) {
  if (name == nullptr) return {};
  return {name, strnlen(name, ProviderRegistry::kMaxNameBytes + 1)};
}

absl::Status Register(const jobscope_provider* given) {
  jobscope_provider provider;
  if (given == nullptr || !CopyIn(given, sizeof(jobscope_provider), &provider)) {
    return absl::InvalidArgumentError(
        "provider.size is not set: write provider.size = sizeof(provider)");
  }
  if (InForkedChild()) return absl::AbortedError(kForkedText);
  if (provider.clock != JOBSCOPE_PROVIDER_MONOTONIC &&
      provider.clock != JOBSCOPE_PROVIDER_REALTIME) {
    return absl::InvalidArgumentError(
        absl::StrCat("provider.clock = ", provider.clock,
                     " is unknown: use JOBSCOPE_PROVIDER_MONOTONIC or JOBSCOPE_PROVIDER_REALTIME"));
  }
  ProviderCallbacks callbacks;
  callbacks.context = provider.context;
  callbacks.realtime = provider.clock == JOBSCOPE_PROVIDER_REALTIME;
  callbacks.arm = provider.arm;
  callbacks.start = provider.start;
  callbacks.stop = provider.stop;
  return ProviderRegistry::Get().Register(NameOf(provider.name), callbacks);
}

}  // namespace
}  // namespace jobscope

extern "C" {

int jobscope_provider_register(const jobscope_provider* provider, char* error, size_t error_size) {
  return jobscope::WithoutException(error, error_size, [&] {
    return jobscope::Answer(jobscope::Register(provider), error, error_size);
  });
}

int jobscope_provider_unregister(const char* name, char* error, size_t error_size) {
  if (jobscope::InForkedChild()) return JOBSCOPE_OK;  // the child has no providers
  // This calls the stop function of a provider that is removed from a running capture. Whatever
  // unwinds its frames (a thread being ended) must pass, so nothing is caught.
  return jobscope::Answer(jobscope::ProviderRegistry::Get().Unregister(jobscope::NameOf(name)),
                          error, error_size);
}

void jobscope_while_nobody_forks(void (*body)(void* argument), void* argument) {
  if (body == nullptr) return;
  // The fork that created this process never completes in it.
  if (jobscope::InForkedChild()) return body(argument);
  // `body` may end the thread, as above.
  jobscope::WhileNobodyForks([body, argument] { body(argument); });
}

}  // extern "C"
