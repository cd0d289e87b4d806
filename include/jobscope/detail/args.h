// SPDX-License-Identifier: Apache-2.0
//
// Turns the arguments of the macros of <jobscope/trace.h>, "key", value, …, into those of the C
// ABI.
#ifndef JOBSCOPE_DETAIL_ARGS_H_
#define JOBSCOPE_DETAIL_ARGS_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>

#include "jobscope/detail/writer_abi.h"

namespace jobscope {
inline namespace recording {
#pragma GCC visibility push(hidden)
namespace trace_detail {

template <typename T>
struct IsNumber {
  static constexpr bool value = std::is_arithmetic<T>::value || std::is_enum<T>::value;
};

inline jobscope_arg MakeInt64(int64_t value) {
  jobscope_arg arg = jobscope_arg();
  arg.type = JOBSCOPE_ARG_INT64;
  arg.value.int64_value = value;
  return arg;
}
inline jobscope_arg MakeUint64(uint64_t value) {
  jobscope_arg arg = jobscope_arg();
  arg.type = JOBSCOPE_ARG_UINT64;
  arg.value.uint64_value = value;
  return arg;
}
inline jobscope_arg MakeDouble(double value) {
  jobscope_arg arg = jobscope_arg();
  arg.type = JOBSCOPE_ARG_DOUBLE;
  arg.value.double_value = value;
  return arg;
}
inline jobscope_arg MakeString(const char* text, size_t length) {
  jobscope_arg arg = jobscope_arg();
  arg.type = JOBSCOPE_ARG_STRING;
  arg.length =
      text == nullptr ? 0 : static_cast<uint32_t>(length < 0xffffffffu ? length : 0xffffffffu);
  arg.value.text = text;
  return arg;
}

template <typename T>
inline typename std::enable_if<std::is_floating_point<T>::value, jobscope_arg>::type ToArg(
    T value) {
  return MakeDouble(static_cast<double>(value));
}
template <typename T>
inline typename std::enable_if<std::is_integral<T>::value && std::is_signed<T>::value,
                               jobscope_arg>::type
ToArg(T value) {
  return MakeInt64(static_cast<int64_t>(value));
}
template <typename T>
inline typename std::enable_if<std::is_integral<T>::value && std::is_unsigned<T>::value,
                               jobscope_arg>::type
ToArg(T value) {
  return MakeUint64(static_cast<uint64_t>(value));
}
template <typename T>
inline typename std::enable_if<std::is_enum<T>::value, jobscope_arg>::type ToArg(T value) {
  return ToArg(static_cast<typename std::underlying_type<T>::type>(value));
}
// Reads one byte more than is kept: enough to know that the text was truncated.
inline jobscope_arg ToArg(const char* text) {
  return MakeString(text, text == nullptr ? 0 : strnlen(text, JOBSCOPE_MAX_STRING + 1));
}
template <typename T>
inline auto ToArg(const T& text) -> decltype(static_cast<const char*>(text.data()),
                                             static_cast<size_t>(text.size()), jobscope_arg()) {
  return MakeString(text.data(), text.size());
}

// Both take from key, value, key, value, …: the keys, and the values.
inline void TakeKeys(const char**) {}
template <size_t kSize, typename Value, typename... Rest>
inline void TakeKeys(const char** keys, const char (&key)[kSize], const Value&,
                     const Rest&... rest) {
  *keys = key;
  TakeKeys(keys + 1, rest...);
}

inline void TakeArgs(jobscope_arg*) {}
template <size_t kSize, typename Value, typename... Rest>
inline void TakeArgs(jobscope_arg* args, const char (&)[kSize], const Value& value,
                     const Rest&... rest) {
  *args = ToArg(value);
  TakeArgs(args + 1, rest...);
}

// The number of strings among (key, value, …).
template <typename... Rest>
struct CountStrings {
  static constexpr size_t value = 0;
};
template <typename Key, typename Value, typename... Rest>
struct CountStrings<Key, Value, Rest...> {
  static constexpr size_t value =
      (IsNumber<typename std::decay<Value>::type>::value ? 0 : 1) + CountStrings<Rest...>::value;
};

}  // namespace trace_detail
#pragma GCC visibility pop
}  // namespace recording
}  // namespace jobscope

#endif  // JOBSCOPE_DETAIL_ARGS_H_
