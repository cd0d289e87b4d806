// SPDX-License-Identifier: Apache-2.0
//
// Implements the macros of <jobscope/trace.h>: sites, scope objects, points in time.
#ifndef JOBSCOPE_DETAIL_SCOPE_H_
#define JOBSCOPE_DETAIL_SCOPE_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "jobscope/detail/args.h"
#include "jobscope/detail/unit.h"

namespace jobscope {
inline namespace recording {
#pragma GCC visibility push(hidden)
namespace trace_detail {

template <int kLevel>
struct LevelBit {
  static_assert(kLevel >= 1 && kLevel <= 3, "the level of a scope is 1, 2 or 3");
  static constexpr uint32_t value = JOBSCOPE_BIT_LEVEL1 << (kLevel - 1);
};

// ---- sites ----

template <typename... Rest>
__attribute__((noinline, cold)) uint32_t Register(jobscope_site* site, const Rest&... rest) {
  const char* keys[sizeof...(Rest) / 2 + 1] = {nullptr};
  TakeKeys(keys, rest...);
  return Writer()->register_site(site, keys, sizeof...(Rest) / 2);
}

template <typename... Rest>
inline uint32_t SiteId(jobscope_site* site, const Rest&... rest) {
  const uint32_t id = __atomic_load_n(&site->id, __ATOMIC_ACQUIRE);
  return JOBSCOPE_DETAIL_UNLIKELY(id == 0) ? Register(site, rest...) : id;
}

// ---- scopes ----

class Scope {
 public:
  Scope() : site_(0) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() {
    if (JOBSCOPE_DETAIL_UNLIKELY(site_ != 0)) Writer()->end(site_, token_);
  }

  template <size_t kSize>
  void Begin(jobscope_site* site, const char (&)[kSize]) {
    site_ = SiteId(site);
    token_ = Writer()->begin(site_);
  }

 private:
  uint32_t site_;  // 0: off, or refused
  jobscope_token token_;
};

// A scope with kArgs arguments, kStrings of them strings. Copies the strings, because they may
// change or be freed before the scope ends.
template <size_t kArgs, size_t kStrings>
class ArgScope {
 public:
  ArgScope() : site_(0) {}
  ArgScope(const ArgScope&) = delete;
  ArgScope& operator=(const ArgScope&) = delete;
  ~ArgScope() {
    if (JOBSCOPE_DETAIL_UNLIKELY(site_ != 0)) Writer()->end_args(site_, token_, args_, kArgs);
  }

  template <size_t kSize, typename... Rest>
  void Begin(jobscope_site* site, const char (&)[kSize], const Rest&... rest) {
    const uint32_t id = SiteId(site, rest...);
    TakeArgs(args_, rest...);
    KeepStrings();
    token_ = Writer()->begin(id);
    site_ = id;
  }

 private:
  void KeepStrings() {
    size_t used = 0;
    for (size_t i = 0; i < kArgs; ++i) {
      if (args_[i].type != JOBSCOPE_ARG_STRING) continue;
      const uint32_t length = args_[i].length;
      if (args_[i].value.text != nullptr) {
        memcpy(text_[used], args_[i].value.text,
               length < JOBSCOPE_MAX_STRING ? length : JOBSCOPE_MAX_STRING);
      }
      args_[i].value.text = text_[used++];
    }
  }

  uint32_t site_;
  jobscope_token token_;
  jobscope_arg args_[kArgs];
  char text_[kStrings > 0 ? kStrings : 1][kStrings > 0 ? JOBSCOPE_MAX_STRING : 1];
};

class StepScope {
 public:
  // Sets the number only for the compiler, which otherwise warns if the step is inlined.
  StepScope() : site_(0), number_(0) {}
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;
  ~StepScope() {
    if (JOBSCOPE_DETAIL_UNLIKELY(site_ != 0)) Writer()->step_end(site_, token_, number_);
  }

  void Begin(jobscope_site* site, int64_t number) {
    site_ = SiteId(site);
    number_ = number;
    token_ = Writer()->step_begin(site_, number);
  }

 private:
  uint32_t site_;
  int64_t number_;
  jobscope_token token_;
};

// The type of the scope object for (name, key, value, …).
template <typename Name, typename... Rest>
struct ScopeFor {
  static_assert(sizeof...(Rest) % 2 == 0, "arguments come in pairs: \"key\", value");
  static_assert(sizeof...(Rest) / 2 <= JOBSCOPE_MAX_KEYS, "a scope takes up to 8 arguments");
  typedef ArgScope<sizeof...(Rest) / 2, CountStrings<Rest...>::value> type;
};
template <typename Name>
struct ScopeFor<Name> {
  typedef Scope type;
};
// Declared only, for decltype.
template <typename... Args>
typename ScopeFor<Args...>::type ScopeType(const Args&...);

// ---- points in time ----

template <size_t kSize>
inline void Event(jobscope_site* site, uint32_t kind, const char (&)[kSize]) {
  Writer()->event(SiteId(site), kind, nullptr, 0);
}
template <size_t kSize, typename... Rest>
inline void Event(jobscope_site* site, uint32_t kind, const char (&)[kSize], const Rest&... rest) {
  static_assert(sizeof...(Rest) % 2 == 0, "arguments come in pairs: \"key\", value");
  static_assert(sizeof...(Rest) / 2 <= JOBSCOPE_MAX_KEYS, "an event takes up to 8 arguments");
  const uint32_t id = SiteId(site, rest...);
  jobscope_arg args[sizeof...(Rest) / 2];
  TakeArgs(args, rest...);
  Writer()->event(id, kind, args, sizeof...(Rest) / 2);
}

template <typename T>
inline void Counter(jobscope_site* site, T sample) {
  static_assert(IsNumber<T>::value, "the sample of a counter is a number");
  const uint32_t id = SiteId(site);
  const jobscope_arg arg = ToArg(sample);
  Writer()->event(id, JOBSCOPE_KIND_COUNTER, &arg, 1);
}

// All flows share one site.
inline void FlowEvent(uint32_t kind, uint64_t flow) {
  static jobscope_site site = {sizeof(jobscope_site), 0, "flow", "", "", 0, JOBSCOPE_BIT_LEVEL1,
                               JOBSCOPE_ROLE_FLOW,    0};
  const uint32_t id = SiteId(&site);
  const jobscope_arg arg = ToArg(flow);
  Writer()->event(id, kind, &arg, 1);
}

}  // namespace trace_detail
#pragma GCC visibility pop
}  // namespace recording
}  // namespace jobscope

#define JOBSCOPE_DETAIL_FIRST(first, ...) first
#define JOBSCOPE_DETAIL_JOIN_(a, b) a##b
#define JOBSCOPE_DETAIL_JOIN(a, b) JOBSCOPE_DETAIL_JOIN_(a, b)

// The site of this place in the code, as a local type. The type and the variable in it are hidden:
// in an inline function the variable would otherwise be a GNU_UNIQUE symbol, which prevents dlclose
// from unloading its module.
#define JOBSCOPE_DETAIL_SITE(type, bit, role, ...)                          \
  struct __attribute__((visibility("hidden"))) type {                       \
    static ::jobscope_site* Get() {                                         \
      static ::jobscope_site site = {sizeof(::jobscope_site),               \
                                     0,                                     \
                                     JOBSCOPE_DETAIL_FIRST(__VA_ARGS__, 0), \
                                     JOBSCOPE_CATEGORY,                     \
                                     __FILE__,                              \
                                     __LINE__,                              \
                                     bit,                                   \
                                     role,                                  \
                                     0};                                    \
      return &site;                                                         \
    }                                                                       \
  }

#define JOBSCOPE_SCOPE_(n, bit, role, ...)                                                         \
  JOBSCOPE_DETAIL_SITE(JOBSCOPE_DETAIL_JOIN(JobscopeSite, n), bit, role, __VA_ARGS__);             \
  decltype(::jobscope::trace_detail::ScopeType(__VA_ARGS__)) JOBSCOPE_DETAIL_JOIN(jobscope_scope_, \
                                                                                  n);              \
  if (JOBSCOPE_DETAIL_UNLIKELY(::jobscope::trace_detail::Enabled(bit)))                            \
  JOBSCOPE_DETAIL_JOIN(jobscope_scope_, n)                                                         \
      .Begin(JOBSCOPE_DETAIL_JOIN(JobscopeSite, n)::Get(), __VA_ARGS__)

#define JOBSCOPE_STEP_(n, name, step)                                                 \
  JOBSCOPE_DETAIL_SITE(JOBSCOPE_DETAIL_JOIN(JobscopeSite, n), JOBSCOPE_BIT_STEP,      \
                       JOBSCOPE_ROLE_STEP, name);                                     \
  ::jobscope::trace_detail::StepScope JOBSCOPE_DETAIL_JOIN(jobscope_scope_, n);       \
  if (JOBSCOPE_DETAIL_UNLIKELY(::jobscope::trace_detail::Enabled(JOBSCOPE_BIT_STEP))) \
  JOBSCOPE_DETAIL_JOIN(jobscope_scope_, n)                                            \
      .Begin(JOBSCOPE_DETAIL_JOIN(JobscopeSite, n)::Get(), static_cast<int64_t>(step))

#define JOBSCOPE_EVENT_(bit, role, kind, ...)                                  \
  do {                                                                         \
    if (JOBSCOPE_DETAIL_UNLIKELY(::jobscope::trace_detail::Enabled(bit))) {    \
      JOBSCOPE_DETAIL_SITE(JobscopeSite, bit, role, __VA_ARGS__);              \
      ::jobscope::trace_detail::Event(JobscopeSite::Get(), kind, __VA_ARGS__); \
    }                                                                          \
  } while (false)

#define JOBSCOPE_COUNTER_(name, sample)                                                     \
  do {                                                                                      \
    if (JOBSCOPE_DETAIL_UNLIKELY(::jobscope::trace_detail::Enabled(JOBSCOPE_BIT_LEVEL1))) { \
      JOBSCOPE_DETAIL_SITE(JobscopeSite, JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_COUNTER, name); \
      ::jobscope::trace_detail::Counter(JobscopeSite::Get(), sample);                       \
    }                                                                                       \
  } while (false)

#endif  // JOBSCOPE_DETAIL_SCOPE_H_
