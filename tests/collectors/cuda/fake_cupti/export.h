// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_COLLECTORS_CUDA_FAKE_CUPTI_EXPORT_H_
#define TESTS_COLLECTORS_CUDA_FAKE_CUPTI_EXPORT_H_

// Marks a function of a fake library. Its type differs from the one that it is called by in names
// of types only, as the real function's does (same_abi.h); clang's UBSan compares names.
#ifdef __clang__
#define EXPORT extern "C" __attribute__((visibility("default"), no_sanitize("function")))
#else
#define EXPORT extern "C" __attribute__((visibility("default")))
#endif

#endif  // TESTS_COLLECTORS_CUDA_FAKE_CUPTI_EXPORT_H_
