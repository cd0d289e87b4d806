// SPDX-License-Identifier: Apache-2.0
//
// Declares the part of CUPTI's ABI that jobscope uses, so that no CUDA header is needed to build,
// and one function table for the libcupti (11, 12 or 13) of the process.
#ifndef COLLECTORS_CUDA_LIBRARIES_CUPTI_API_H_
#define COLLECTORS_CUDA_LIBRARIES_CUPTI_API_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace jobscope::cuda {

// A CUptiResult; result_text.h has a text for each.
using CuptiResult = int32_t;
inline constexpr CuptiResult kCuptiSuccess = 0;
inline constexpr CuptiResult kCuptiNotImplemented = 11;
inline constexpr CuptiResult kCuptiMaxLimitReached = 12;  // end of a buffer
inline constexpr CuptiResult kCuptiInvalidKind = 21;
inline constexpr CuptiResult kCuptiMultipleSubscribers = 39;
inline constexpr CuptiResult kCuptiUnknown = 999;

// CUpti_ActivityKind: the kinds that jobscope knows.
enum ActivityKind : uint32_t {
  kKindMemcpy = 1,
  kKindMemset = 2,
  kKindKernel = 3,
  kKindDriver = 4,
  kKindRuntime = 5,
  kKindConcurrentKernel = 10,
  kKindOverhead = 17,
  kKindMemcpyPeer = 22,
  kKindUnifiedMemory = 25,
  kKindCudaEvent = 36,
  kKindSynchronization = 38,
  kKindMemory = 49,  // CUPTI's MEMORY2
};

// Values of cuptiGetVersion for the releases with relevant changes.
inline constexpr uint32_t kCupti11_0 = 13;
inline constexpr uint32_t kCupti11_1 = 14;
inline constexpr uint32_t kCupti11_2 = 15;
inline constexpr uint32_t kCupti11_6 = 17;
inline constexpr uint32_t kCupti11_8 = 18;  // also returned by 12.0 and 12.1
inline constexpr uint32_t kCupti12_2 = 20;
inline constexpr uint32_t kCupti12_3 = 21;
inline constexpr uint32_t kCupti12_4 = 22;
inline constexpr uint32_t kCupti12_5 = 23;
inline constexpr uint32_t kCupti12_6 = 24;
inline constexpr uint32_t kCupti12_8 = 26;
inline constexpr uint32_t kCupti12_9 = 27;
inline constexpr uint32_t kCupti13_0 = 130000;
inline constexpr uint32_t kCupti13_0_1 = 130001;
inline constexpr uint32_t kCupti14_0 = 140000;  // not released yet

// Returns "12.4" for a number from cuptiGetVersion.
std::string CuptiVersionText(uint32_t version);
// Returns 11, 12, 13, …; 0 for versions before 11.
uint32_t CuptiMajor(uint32_t version);

enum CallbackDomain : uint32_t {
  kDomainDriverApi = 1,
  kDomainRuntimeApi = 2,
  kDomainState = 6,  // CUPTI's own errors and warnings, from 12.2 on
};
inline constexpr uint32_t kStateFatalError = 1;
inline constexpr uint32_t kStateWarning = 3;

// CUpti_StateData, up to its notification.
struct StateNotification {
  CuptiResult result;
  const char* message;
};

// CUpti_ActivityAttribute: the first two are size_t, the third is a byte.
inline constexpr uint32_t kDeviceBufferSize = 0;
inline constexpr uint32_t kDeviceBufferPoolLimit = 2;
inline constexpr uint32_t kPerThreadBuffer = 9;

inline constexpr uint32_t kFlushForced = 1;
// Records carry gettid instead of a truncated pthread_self.
inline constexpr uint32_t kThreadIdSystem = 1;

// CUpti_SubscriberParams as of 13.0; its first field gives its size.
struct SubscriberParams {
  size_t struct_size;
  const char* name;
  char* old_name;
  size_t old_name_size;
};

// CUpti_ActivityUnifiedMemoryCounterConfig.
struct UnifiedMemoryConfig {
  uint32_t scope;
  uint32_t kind;
  uint32_t device;
  uint32_t enable;
};

using Subscriber = void*;
using SubscriberCallback = void (*)(void* userdata, uint32_t domain, uint32_t cbid,
                                    const void* data);
using BufferRequested = void (*)(uint8_t** buffer, size_t* size, size_t* max_records);
using BufferCompleted = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size,
                                 size_t valid);

// Required functions: every CUPTI from 11.0 on has all of them.
#define JOBSCOPE_CUPTI_REQUIRED(F)                                                          \
  F(cuptiGetVersion, (uint32_t * version))                                                  \
  F(cuptiGetResultString, (CuptiResult result, const char** text))                          \
  F(cuptiSubscribe, (Subscriber * subscriber, SubscriberCallback callback, void* userdata)) \
  F(cuptiUnsubscribe, (Subscriber subscriber))                                              \
  F(cuptiActivityRegisterCallbacks, (BufferRequested requested, BufferCompleted completed)) \
  F(cuptiActivityEnable, (uint32_t kind))                                                   \
  F(cuptiActivityDisable, (uint32_t kind))                                                  \
  F(cuptiActivityFlushAll, (uint32_t flags))                                                \
  F(cuptiActivityGetNextRecord, (uint8_t * buffer, size_t valid, uint8_t * *record))        \
  F(cuptiActivityGetNumDroppedRecords, (void* context, uint32_t stream, size_t* dropped))   \
  F(cuptiGetTimestamp, (uint64_t * timestamp))

// Optional functions, by the release that introduced them; features that need a missing one are
// omitted. A test compares every prototype with NVIDIA's headers from 11.8 on.
#define JOBSCOPE_CUPTI_SINCE_11_0(F)                                              \
  F(cuptiGetCallbackName, (uint32_t domain, uint32_t cbid, const char** name))    \
  F(cuptiSetThreadIdType, (uint32_t type))                                        \
  F(cuptiEnableDomain, (uint32_t enable, Subscriber subscriber, uint32_t domain)) \
  F(cuptiFinalize, ())                                                            \
  F(cuptiActivityGetAttribute, (uint32_t attribute, size_t * size, void* value))  \
  F(cuptiActivitySetAttribute, (uint32_t attribute, size_t * size, void* value))  \
  F(cuptiActivityConfigureUnifiedMemoryCounter, (UnifiedMemoryConfig * configs, uint32_t count))
#define JOBSCOPE_CUPTI_SINCE_12_2(F) \
  F(cuptiGetErrorMessage, (CuptiResult result, const char** message))
#define JOBSCOPE_CUPTI_SINCE_12_5(F)                               \
  F(cuptiActivityEnableDriverApi, (uint32_t cbid, uint8_t enable)) \
  F(cuptiActivityEnableRuntimeApi, (uint32_t cbid, uint8_t enable))
#define JOBSCOPE_CUPTI_SINCE_13_0(F)                                                          \
  F(cuptiSubscribe_v2, (Subscriber * subscriber, SubscriberCallback callback, void* userdata, \
                        SubscriberParams* params))
#define JOBSCOPE_CUPTI_OPTIONAL(F) \
  JOBSCOPE_CUPTI_SINCE_11_0(F)     \
  JOBSCOPE_CUPTI_SINCE_12_2(F)     \
  JOBSCOPE_CUPTI_SINCE_12_5(F)     \
  JOBSCOPE_CUPTI_SINCE_13_0(F)

// The functions of one libcupti. The library is never unloaded, so the table lives for ever.
struct CuptiApi {
#define JOBSCOPE_DECLARE(name, parameters) CuptiResult(*name) parameters = nullptr;
  JOBSCOPE_CUPTI_REQUIRED(JOBSCOPE_DECLARE)
  JOBSCOPE_CUPTI_OPTIONAL(JOBSCOPE_DECLARE)
#undef JOBSCOPE_DECLARE
  uint32_t version = 0;  // cuptiGetVersion
  std::string path;      // where it was found

  // Looks up all functions in an open library. Returns the first missing required one, or null.
  const char* Resolve(void* library);
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_LIBRARIES_CUPTI_API_H_
