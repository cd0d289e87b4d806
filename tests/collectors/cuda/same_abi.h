// SPDX-License-Identifier: Apache-2.0
//
// Checks whether a function pointer that we declare for a foreign library has the ABI of that
// library's header. The types differ by name (we include no CUDA header in what is shipped):
// number, size and depth of indirection of the parameters must agree.
#ifndef TESTS_COLLECTORS_CUDA_SAME_ABI_H_
#define TESTS_COLLECTORS_CUDA_SAME_ABI_H_

#include <type_traits>

namespace jobscope {

template <typename Ours, typename Theirs>
constexpr bool SameAbi();

namespace same_abi_detail {

template <typename T>
inline constexpr bool kIsNumber = std::is_integral_v<T> || std::is_enum_v<T>;
// What a handle or a block of bytes points to. Never a pointer or another number.
template <typename T>
inline constexpr bool kIsOpaque = std::is_void_v<T> || std::is_class_v<T> || std::is_union_v<T> ||
                                  std::is_same_v<T, unsigned char>;

template <typename Ours, typename Theirs>
struct Function : std::false_type {};
template <typename Result, typename... Parameters, typename OtherResult, typename... Others>
struct Function<Result(Parameters...), OtherResult(Others...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Parameters) != sizeof...(Others)) {
      return false;
    } else {
      return (SameAbi<Result, OtherResult>() && ... && SameAbi<Parameters, Others>());
    }
  }();
};

}  // namespace same_abi_detail

template <typename Ours, typename Theirs>
constexpr bool SameAbi() {
  using A = std::remove_cv_t<Ours>;
  using B = std::remove_cv_t<Theirs>;
  if constexpr (std::is_function_v<A> && std::is_function_v<B>) {
    return same_abi_detail::Function<A, B>::value;
  } else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    return SameAbi<std::remove_pointer_t<A>, std::remove_pointer_t<B>>();
  } else if constexpr (same_abi_detail::kIsNumber<A> && same_abi_detail::kIsNumber<B>) {
    return sizeof(A) == sizeof(B);
  } else {
    return same_abi_detail::kIsOpaque<A> && same_abi_detail::kIsOpaque<B>;
  }
}

}  // namespace jobscope

#endif  // TESTS_COLLECTORS_CUDA_SAME_ABI_H_
