// SPDX-License-Identifier: Apache-2.0
//
// Our offsets, numbers, sizes and prototypes against NVIDIA's headers, those of CUDA 11.8 to 13:
// this program compiles and ends with 0, or they are wrong. wheels_test.sh builds it once for each
// version, without this project's build.
#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_result.h>
#include <cupti_runtime_cbid.h>
#include <cupti_version.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/libraries/driver_functions.h"
#include "collectors/cuda/records/record.h"
#include "collectors/cuda/records/record_layout.h"
#include "tests/collectors/cuda/same_abi.h"

namespace jobscope::cuda {
namespace {

// The newest struct of each kind that the header has, as far as we know.
#if CUPTI_API_VERSION >= 130000
using Kernel = CUpti_ActivityKernel10;
#elif CUPTI_API_VERSION >= 20
using Kernel = CUpti_ActivityKernel9;
#else
using Kernel = CUpti_ActivityKernel8;
#endif
#if CUPTI_API_VERSION >= 26
using Copy = CUpti_ActivityMemcpy6;
using Sync = CUpti_ActivitySynchronization2;
using UnifiedMemory = CUpti_ActivityUnifiedMemoryCounter3;
#else
using Copy = CUpti_ActivityMemcpy5;
using Sync = CUpti_ActivitySynchronization;
using UnifiedMemory = CUpti_ActivityUnifiedMemoryCounter2;
#endif
#if CUPTI_API_VERSION >= 24
using MemoryEvent = CUpti_ActivityMemory4;
#else
using MemoryEvent = CUpti_ActivityMemory3;
#endif
#if CUPTI_API_VERSION >= 22
using Overhead = CUpti_ActivityOverhead3;
#elif CUPTI_API_VERSION >= 21
using Overhead = CUpti_ActivityOverhead2;
#else
using Overhead = CUpti_ActivityOverhead;
#endif
#define SAME(ours, type, field) static_assert((ours) == offsetof(type, field))
#define EQUAL(ours, theirs) \
  static_assert(static_cast<int64_t>(ours) == static_cast<int64_t>(theirs))

SAME(layout::kernel::kRegisters, Kernel, registersPerThread);
SAME(layout::kernel::kStart, Kernel, start);
SAME(layout::kernel::kEnd, Kernel, end);
SAME(layout::kernel::kDevice, Kernel, deviceId);
SAME(layout::kernel::kContext, Kernel, contextId);
SAME(layout::kernel::kStream, Kernel, streamId);
SAME(layout::kernel::kGrid, Kernel, gridX);
SAME(layout::kernel::kBlock, Kernel, blockX);
SAME(layout::kernel::kStaticShared, Kernel, staticSharedMemory);
SAME(layout::kernel::kDynamicShared, Kernel, dynamicSharedMemory);
SAME(layout::kernel::kLocalPerThread, Kernel, localMemoryPerThread);
SAME(layout::kernel::kCorrelation, Kernel, correlationId);
SAME(layout::kernel::kName, Kernel, name);
SAME(layout::kernel::kGraphNode, Kernel, graphNodeId);
SAME(layout::kernel::kGraph, Kernel, graphId);
SAME(layout::kernel::kCluster, Kernel, clusterX);

SAME(layout::copy::kCopyKind, Copy, copyKind);
SAME(layout::copy::kSourceMemory, Copy, srcKind);
SAME(layout::copy::kDestinationMemory, Copy, dstKind);
SAME(layout::copy::kFlags, Copy, flags);
SAME(layout::copy::kBytes, Copy, bytes);
SAME(layout::copy::kStart, Copy, start);
SAME(layout::copy::kEnd, Copy, end);
SAME(layout::copy::kDevice, Copy, deviceId);
SAME(layout::copy::kContext, Copy, contextId);
SAME(layout::copy::kStream, Copy, streamId);
SAME(layout::copy::kCorrelation, Copy, correlationId);
SAME(layout::copy::kGraphNode, Copy, graphNodeId);
SAME(layout::copy::kGraph, Copy, graphId);

SAME(layout::copy::kStream, CUpti_ActivityMemcpyPtoP4, streamId);
SAME(layout::copy::kBytes, CUpti_ActivityMemcpyPtoP4, bytes);
SAME(layout::peer_copy::kSourceDevice, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
SAME(layout::peer_copy::kDestinationDevice, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
SAME(layout::peer_copy::kCorrelation, CUpti_ActivityMemcpyPtoP4, correlationId);
SAME(layout::peer_copy::kGraphNode, CUpti_ActivityMemcpyPtoP4, graphNodeId);
SAME(layout::peer_copy::kGraph, CUpti_ActivityMemcpyPtoP4, graphId);

SAME(layout::set::kValue, CUpti_ActivityMemset4, value);
SAME(layout::set::kBytes, CUpti_ActivityMemset4, bytes);
SAME(layout::set::kStart, CUpti_ActivityMemset4, start);
SAME(layout::set::kEnd, CUpti_ActivityMemset4, end);
SAME(layout::set::kDevice, CUpti_ActivityMemset4, deviceId);
SAME(layout::set::kContext, CUpti_ActivityMemset4, contextId);
SAME(layout::set::kStream, CUpti_ActivityMemset4, streamId);
SAME(layout::set::kCorrelation, CUpti_ActivityMemset4, correlationId);
SAME(layout::set::kFlags, CUpti_ActivityMemset4, flags);
SAME(layout::set::kMemoryKind, CUpti_ActivityMemset4, memoryKind);
SAME(layout::set::kGraphNode, CUpti_ActivityMemset4, graphNodeId);
SAME(layout::set::kGraph, CUpti_ActivityMemset4, graphId);

SAME(layout::api::kCall, CUpti_ActivityAPI, cbid);
SAME(layout::api::kStart, CUpti_ActivityAPI, start);
SAME(layout::api::kEnd, CUpti_ActivityAPI, end);
SAME(layout::api::kThread, CUpti_ActivityAPI, threadId);
SAME(layout::api::kCorrelation, CUpti_ActivityAPI, correlationId);
SAME(layout::api::kResult, CUpti_ActivityAPI, returnValue);

SAME(layout::sync::kType, Sync, type);
SAME(layout::sync::kStart, Sync, start);
SAME(layout::sync::kEnd, Sync, end);
SAME(layout::sync::kCorrelation, Sync, correlationId);
SAME(layout::sync::kContext, Sync, contextId);
SAME(layout::sync::kStream, Sync, streamId);

SAME(layout::overhead::kOverheadKind, Overhead, overheadKind);
SAME(layout::overhead::kObjectKind, Overhead, objectKind);
SAME(layout::overhead::kObjectThread, Overhead, objectId.pt.threadId);
SAME(layout::overhead::kStart, Overhead, start);
SAME(layout::overhead::kEnd, Overhead, end);
#if CUPTI_API_VERSION >= 21
SAME(layout::overhead::kCorrelation, Overhead, correlationId);
#endif
#if CUPTI_API_VERSION >= 22
SAME(layout::overhead::kData, Overhead, overheadData);
#endif

SAME(layout::memory::kOperation, MemoryEvent, memoryOperationType);
SAME(layout::memory::kMemoryKind, MemoryEvent, memoryKind);
SAME(layout::memory::kCorrelation, MemoryEvent, correlationId);
SAME(layout::memory::kAddress, MemoryEvent, address);
SAME(layout::memory::kBytes, MemoryEvent, bytes);
SAME(layout::memory::kTimestamp, MemoryEvent, timestamp);
SAME(layout::memory::kDevice, MemoryEvent, deviceId);
SAME(layout::memory::kContext, MemoryEvent, contextId);
SAME(layout::memory::kStream, MemoryEvent, streamId);
SAME(layout::memory::kName, MemoryEvent, name);

SAME(layout::unified_memory::kCounter, UnifiedMemory, counterKind);
SAME(layout::unified_memory::kValue, UnifiedMemory, value);
SAME(layout::unified_memory::kStart, UnifiedMemory, start);
SAME(layout::unified_memory::kEnd, UnifiedMemory, end);
SAME(layout::unified_memory::kAddress, UnifiedMemory, address);
SAME(layout::unified_memory::kSource, UnifiedMemory, srcId);
SAME(layout::unified_memory::kDestination, UnifiedMemory, dstId);
SAME(layout::unified_memory::kStream, UnifiedMemory, streamId);

EQUAL(kKindMemcpy, CUPTI_ACTIVITY_KIND_MEMCPY);
EQUAL(kKindMemset, CUPTI_ACTIVITY_KIND_MEMSET);
EQUAL(kKindKernel, CUPTI_ACTIVITY_KIND_KERNEL);
EQUAL(kKindDriver, CUPTI_ACTIVITY_KIND_DRIVER);
EQUAL(kKindRuntime, CUPTI_ACTIVITY_KIND_RUNTIME);
EQUAL(kKindConcurrentKernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
EQUAL(kKindOverhead, CUPTI_ACTIVITY_KIND_OVERHEAD);
EQUAL(kKindMemcpyPeer, CUPTI_ACTIVITY_KIND_MEMCPY2);
EQUAL(kKindUnifiedMemory, CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
EQUAL(kKindCudaEvent, CUPTI_ACTIVITY_KIND_CUDA_EVENT);
EQUAL(kKindSynchronization, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
EQUAL(kKindMemory, CUPTI_ACTIVITY_KIND_MEMORY2);

EQUAL(kDomainDriverApi, CUPTI_CB_DOMAIN_DRIVER_API);
EQUAL(kDomainRuntimeApi, CUPTI_CB_DOMAIN_RUNTIME_API);
#if CUPTI_API_VERSION >= 20
EQUAL(kDomainState, CUPTI_CB_DOMAIN_STATE);
EQUAL(kStateFatalError, CUPTI_CBID_STATE_FATAL_ERROR);
EQUAL(kStateWarning, CUPTI_CBID_STATE_WARNING);
static_assert(offsetof(StateNotification, message) ==
              offsetof(CUpti_StateData, notification.message));
#endif
SAME(0, CUpti_CallbackData, callbackSite);  // detacher.cc
SAME(8, CUpti_CallbackData, functionName);
EQUAL(0, CUPTI_API_ENTER);
EQUAL(1, CUPTI_API_EXIT);
EQUAL(kDeviceBufferSize, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE);
EQUAL(kDeviceBufferPoolLimit, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT);
#if CUPTI_API_VERSION >= 21
EQUAL(kPerThreadBuffer, CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER);
#endif
EQUAL(kFlushForced, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
EQUAL(kThreadIdSystem, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
EQUAL(kCuptiMaxLimitReached, CUPTI_ERROR_MAX_LIMIT_REACHED);
EQUAL(kCuptiInvalidKind, CUPTI_ERROR_INVALID_KIND);
EQUAL(kCuptiMultipleSubscribers, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
static_assert(sizeof(CuptiResult) == sizeof(CUptiResult));
#if CUPTI_API_VERSION >= 130000
SAME(offsetof(SubscriberParams, name), CUpti_SubscriberParams, subscriberName);
SAME(offsetof(SubscriberParams, old_name), CUpti_SubscriberParams, oldSubscriberName);
SAME(offsetof(SubscriberParams, old_name_size), CUpti_SubscriberParams, oldSubscriberSize);
#endif

// A wrong prototype is called without any message from compiler or linker, and writes wherever a
// register happens to point.
#define PROTOTYPE(name, parameters) \
  static_assert(SameAbi<decltype(CuptiApi::name), decltype(&::name)>(), #name);
JOBSCOPE_CUPTI_REQUIRED(PROTOTYPE)
JOBSCOPE_CUPTI_SINCE_11_0(PROTOTYPE)
#if CUPTI_API_VERSION >= 20
JOBSCOPE_CUPTI_SINCE_12_2(PROTOTYPE)
#endif
#if CUPTI_API_VERSION >= 23
JOBSCOPE_CUPTI_SINCE_12_5(PROTOTYPE)
#endif
#if CUPTI_API_VERSION >= 130000
JOBSCOPE_CUPTI_SINCE_13_0(PROTOTYPE)
#endif
#undef PROTOTYPE
#define PROTOTYPE(name, parameters) \
  static_assert(SameAbi<decltype(DriverFunctions::name), decltype(&::name)>(), #name);
JOBSCOPE_DRIVER_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE
// The check itself: what must not pass for the same.
static_assert(!SameAbi<CuptiResult (*)(const char**), decltype(&::cuptiGetResultString)>());
static_assert(
    !SameAbi<CuptiResult (*)(uint64_t, const char**), decltype(&::cuptiGetResultString)>());
static_assert(
    !SameAbi<CuptiResult (*)(CuptiResult, const char*), decltype(&::cuptiGetResultString)>());
static_assert(
    !SameAbi<CuptiResult (*)(void*, SubscriberCallback, void*), decltype(&::cuptiSubscribe)>());

// The calls that are known by number: tracing.cc (quiet) and the tests (launches).
static_assert(CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020 == 17);
static_assert(CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020 == 10);
static_assert(CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020 == 11);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent == 304);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxGetState == 392);
#if CUPTI_API_VERSION >= 20
static_assert(CUPTI_DRIVER_TRACE_CBID_cuKernelGetAttribute == 686);
#endif
static_assert(CUPTI_DRIVER_TRACE_CBID_cuCtxGetDevice == 16);

// driver_api.cc
static_assert(CU_DEVICE_ATTRIBUTE_CLOCK_RATE == 13);
static_assert(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT == 16);
static_assert(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE == 36);
static_assert(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH == 37);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR == 39);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == 75);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR == 76);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR == 81);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR == 82);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR == 106);
static_assert(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK == 111);
static_assert(CUDA_ERROR_NOT_INITIALIZED == 3 && CUDA_ERROR_NO_DEVICE == 100);

// tracing.cc
EQUAL(2, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES);
EQUAL(1, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD);
EQUAL(2, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH);
EQUAL(3, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT);
EQUAL(4, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT);
EQUAL(5, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING);
EQUAL(7, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP);
EQUAL(8, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD);
static_assert(sizeof(UnifiedMemoryConfig) == sizeof(CUpti_ActivityUnifiedMemoryCounterConfig));
SAME(offsetof(UnifiedMemoryConfig, kind), CUpti_ActivityUnifiedMemoryCounterConfig, kind);
SAME(offsetof(UnifiedMemoryConfig, device), CUpti_ActivityUnifiedMemoryCounterConfig, deviceId);
SAME(offsetof(UnifiedMemoryConfig, enable), CUpti_ActivityUnifiedMemoryCounterConfig, enable);
// record.cc, activity_names.cc
EQUAL(1, CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC);
EQUAL(1, CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC);
EQUAL(2, CUPTI_ACTIVITY_OBJECT_THREAD);
EQUAL(1, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION);
EQUAL(2, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE);
EQUAL(2, CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
EQUAL(3, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
EQUAL(4, CUPTI_ACTIVITY_MEMORY_KIND_ARRAY);
EQUAL(5, CUPTI_ACTIVITY_MEMORY_KIND_MANAGED);
EQUAL(6, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC);
EQUAL(1, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
EQUAL(2, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
EQUAL(8, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD);
EQUAL(9, CUPTI_ACTIVITY_MEMCPY_KIND_HTOH);
EQUAL(10, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
EQUAL(1, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE);
EQUAL(2, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT);
EQUAL(3, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE);
EQUAL(4, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE);
EQUAL(UINT32_MAX, static_cast<uint32_t>(CUPTI_SYNCHRONIZATION_INVALID_VALUE));

// Returns how many bytes of `kind` we read, against the header's struct.
int Differs(uint32_t kind, size_t header_bytes) {
  // Of a version that we do not know yet, structs only grow at their ends.
  const size_t bytes = RecordBytes(kind, CUPTI_API_VERSION);
  if (bytes == header_bytes) return 0;
  std::fprintf(stderr, "kind %u: %zu bytes, in the header %zu\n", kind, bytes, header_bytes);
  return 1;
}

}  // namespace

int CountDifferences() {
  return Differs(kKindConcurrentKernel, sizeof(Kernel)) + Differs(kKindMemcpy, sizeof(Copy)) +
         Differs(kKindMemcpyPeer, sizeof(CUpti_ActivityMemcpyPtoP4)) +
         Differs(kKindMemset, sizeof(CUpti_ActivityMemset4)) +
         Differs(kKindRuntime, sizeof(CUpti_ActivityAPI)) +
         Differs(kKindSynchronization, sizeof(Sync)) + Differs(kKindOverhead, sizeof(Overhead)) +
         Differs(kKindMemory, sizeof(MemoryEvent)) +
         Differs(kKindUnifiedMemory, sizeof(UnifiedMemory));
}

}  // namespace jobscope::cuda

int main() { return jobscope::cuda::CountDifferences(); }
