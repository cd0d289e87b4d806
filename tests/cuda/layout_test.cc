// SPDX-License-Identifier: Apache-2.0
//
// Our offsets, numbers and sizes against NVIDIA's headers: this file compiles, or they are wrong.
// Built only where a CUDA toolkit is.
#include <cuda.h>
#include <cupti.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "collectors/cuda/cupti_api.h"
#include "collectors/cuda/record.h"
#include "collectors/cuda/record_layout.h"

namespace jobscope::cuda {
namespace {

// Older headers lack some of the structs.
#if CUPTI_API_VERSION >= 22

#define SAME(ours, type, field) static_assert((ours) == offsetof(type, field))
#define EQUAL(ours, theirs) \
  static_assert(static_cast<int64_t>(ours) == static_cast<int64_t>(theirs))

SAME(layout::kernel::kRegisters, CUpti_ActivityKernel9, registersPerThread);
SAME(layout::kernel::kStart, CUpti_ActivityKernel9, start);
SAME(layout::kernel::kEnd, CUpti_ActivityKernel9, end);
SAME(layout::kernel::kDevice, CUpti_ActivityKernel9, deviceId);
SAME(layout::kernel::kContext, CUpti_ActivityKernel9, contextId);
SAME(layout::kernel::kStream, CUpti_ActivityKernel9, streamId);
SAME(layout::kernel::kGrid, CUpti_ActivityKernel9, gridX);
SAME(layout::kernel::kBlock, CUpti_ActivityKernel9, blockX);
SAME(layout::kernel::kStaticShared, CUpti_ActivityKernel9, staticSharedMemory);
SAME(layout::kernel::kDynamicShared, CUpti_ActivityKernel9, dynamicSharedMemory);
SAME(layout::kernel::kLocalPerThread, CUpti_ActivityKernel9, localMemoryPerThread);
SAME(layout::kernel::kCorrelation, CUpti_ActivityKernel9, correlationId);
SAME(layout::kernel::kName, CUpti_ActivityKernel9, name);
SAME(layout::kernel::kQueued, CUpti_ActivityKernel9, queued);
SAME(layout::kernel::kSubmitted, CUpti_ActivityKernel9, submitted);
SAME(layout::kernel::kGraphNode, CUpti_ActivityKernel9, graphNodeId);
SAME(layout::kernel::kGraph, CUpti_ActivityKernel9, graphId);
SAME(layout::kernel::kCluster, CUpti_ActivityKernel9, clusterX);

SAME(layout::copy::kCopyKind, CUpti_ActivityMemcpy5, copyKind);
SAME(layout::copy::kSourceMemory, CUpti_ActivityMemcpy5, srcKind);
SAME(layout::copy::kDestinationMemory, CUpti_ActivityMemcpy5, dstKind);
SAME(layout::copy::kFlags, CUpti_ActivityMemcpy5, flags);
SAME(layout::copy::kBytes, CUpti_ActivityMemcpy5, bytes);
SAME(layout::copy::kStart, CUpti_ActivityMemcpy5, start);
SAME(layout::copy::kEnd, CUpti_ActivityMemcpy5, end);
SAME(layout::copy::kDevice, CUpti_ActivityMemcpy5, deviceId);
SAME(layout::copy::kContext, CUpti_ActivityMemcpy5, contextId);
SAME(layout::copy::kStream, CUpti_ActivityMemcpy5, streamId);
SAME(layout::copy::kCorrelation, CUpti_ActivityMemcpy5, correlationId);
SAME(layout::copy::kGraphNode, CUpti_ActivityMemcpy5, graphNodeId);
SAME(layout::copy::kGraph, CUpti_ActivityMemcpy5, graphId);

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

SAME(layout::sync::kType, CUpti_ActivitySynchronization, type);
SAME(layout::sync::kStart, CUpti_ActivitySynchronization, start);
SAME(layout::sync::kEnd, CUpti_ActivitySynchronization, end);
SAME(layout::sync::kCorrelation, CUpti_ActivitySynchronization, correlationId);
SAME(layout::sync::kContext, CUpti_ActivitySynchronization, contextId);
SAME(layout::sync::kStream, CUpti_ActivitySynchronization, streamId);

SAME(layout::overhead::kOverheadKind, CUpti_ActivityOverhead3, overheadKind);
SAME(layout::overhead::kObjectKind, CUpti_ActivityOverhead3, objectKind);
SAME(layout::overhead::kObjectThread, CUpti_ActivityOverhead3, objectId.pt.threadId);
SAME(layout::overhead::kStart, CUpti_ActivityOverhead3, start);
SAME(layout::overhead::kEnd, CUpti_ActivityOverhead3, end);
SAME(layout::overhead::kCorrelation, CUpti_ActivityOverhead3, correlationId);
SAME(layout::overhead::kData, CUpti_ActivityOverhead3, overheadData);

SAME(layout::memory::kOperation, CUpti_ActivityMemory3, memoryOperationType);
SAME(layout::memory::kMemoryKind, CUpti_ActivityMemory3, memoryKind);
SAME(layout::memory::kCorrelation, CUpti_ActivityMemory3, correlationId);
SAME(layout::memory::kAddress, CUpti_ActivityMemory3, address);
SAME(layout::memory::kBytes, CUpti_ActivityMemory3, bytes);
SAME(layout::memory::kTimestamp, CUpti_ActivityMemory3, timestamp);
SAME(layout::memory::kDevice, CUpti_ActivityMemory3, deviceId);
SAME(layout::memory::kContext, CUpti_ActivityMemory3, contextId);
SAME(layout::memory::kStream, CUpti_ActivityMemory3, streamId);
SAME(layout::memory::kName, CUpti_ActivityMemory3, name);

SAME(layout::graph::kCorrelation, CUpti_ActivityGraphTrace2, correlationId);
SAME(layout::graph::kStart, CUpti_ActivityGraphTrace2, start);
SAME(layout::graph::kEnd, CUpti_ActivityGraphTrace2, end);
SAME(layout::graph::kDevice, CUpti_ActivityGraphTrace2, deviceId);
SAME(layout::graph::kGraph, CUpti_ActivityGraphTrace2, graphId);
SAME(layout::graph::kContext, CUpti_ActivityGraphTrace2, contextId);
SAME(layout::graph::kStream, CUpti_ActivityGraphTrace2, streamId);

SAME(layout::unified_memory::kCounter, CUpti_ActivityUnifiedMemoryCounter2, counterKind);
SAME(layout::unified_memory::kValue, CUpti_ActivityUnifiedMemoryCounter2, value);
SAME(layout::unified_memory::kStart, CUpti_ActivityUnifiedMemoryCounter2, start);
SAME(layout::unified_memory::kEnd, CUpti_ActivityUnifiedMemoryCounter2, end);
SAME(layout::unified_memory::kAddress, CUpti_ActivityUnifiedMemoryCounter2, address);
SAME(layout::unified_memory::kSource, CUpti_ActivityUnifiedMemoryCounter2, srcId);
SAME(layout::unified_memory::kDestination, CUpti_ActivityUnifiedMemoryCounter2, dstId);
SAME(layout::unified_memory::kStream, CUpti_ActivityUnifiedMemoryCounter2, streamId);

EQUAL(kKindMemcpy, CUPTI_ACTIVITY_KIND_MEMCPY);
EQUAL(kKindMemset, CUPTI_ACTIVITY_KIND_MEMSET);
EQUAL(kKindKernel, CUPTI_ACTIVITY_KIND_KERNEL);
EQUAL(kKindDriver, CUPTI_ACTIVITY_KIND_DRIVER);
EQUAL(kKindRuntime, CUPTI_ACTIVITY_KIND_RUNTIME);
EQUAL(kKindConcurrentKernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
EQUAL(kKindOverhead, CUPTI_ACTIVITY_KIND_OVERHEAD);
EQUAL(kKindMemcpyPeer, CUPTI_ACTIVITY_KIND_MEMCPY2);
EQUAL(kKindUnifiedMemory, CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
EQUAL(kKindSynchronization, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
EQUAL(kKindMemory, CUPTI_ACTIVITY_KIND_MEMORY2);
EQUAL(kKindGraphTrace, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);

EQUAL(kDomainDriverApi, CUPTI_CB_DOMAIN_DRIVER_API);
EQUAL(kDomainRuntimeApi, CUPTI_CB_DOMAIN_RUNTIME_API);
EQUAL(kDomainState, CUPTI_CB_DOMAIN_STATE);
EQUAL(kStateFatalError, CUPTI_CBID_STATE_FATAL_ERROR);
EQUAL(kStateWarning, CUPTI_CBID_STATE_WARNING);
static_assert(offsetof(StateNotification, message) ==
              offsetof(CUpti_StateData, notification.message));
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

// The calls that are told by number: tracing.cc (quiet) and the tests (launches).
static_assert(CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020 == 17);
static_assert(CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020 == 10);
static_assert(CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020 == 11);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent == 304);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxGetState == 392);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuKernelGetAttribute == 686);
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

#endif  // CUPTI_API_VERSION >= 22

TEST(LayoutTest, TheNewestSizesAreTheHeaders) {
#if CUPTI_API_VERSION >= 130000
  constexpr uint32_t kVersion = CUPTI_API_VERSION;
  EXPECT_EQ(RecordBytes(kKindConcurrentKernel, kVersion), sizeof(CUpti_ActivityKernel10));
  EXPECT_EQ(RecordBytes(kKindMemcpy, kVersion), sizeof(CUpti_ActivityMemcpy6));
  EXPECT_EQ(RecordBytes(kKindMemcpyPeer, kVersion), sizeof(CUpti_ActivityMemcpyPtoP4));
  EXPECT_EQ(RecordBytes(kKindMemset, kVersion), sizeof(CUpti_ActivityMemset4));
  EXPECT_EQ(RecordBytes(kKindRuntime, kVersion), sizeof(CUpti_ActivityAPI));
  EXPECT_EQ(RecordBytes(kKindSynchronization, kVersion), sizeof(CUpti_ActivitySynchronization2));
  EXPECT_EQ(RecordBytes(kKindOverhead, kVersion), sizeof(CUpti_ActivityOverhead3));
  EXPECT_EQ(RecordBytes(kKindMemory, kVersion), sizeof(CUpti_ActivityMemory4));
  EXPECT_EQ(RecordBytes(kKindGraphTrace, kVersion), sizeof(CUpti_ActivityGraphTrace2));
#else
  GTEST_SKIP() << "the toolkit is older than 13.0: only offsets were compared";
#endif
}

}  // namespace
}  // namespace jobscope::cuda
