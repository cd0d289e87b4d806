// SPDX-License-Identifier: Apache-2.0
//
// A libcupti without a GPU: a shared library with CUPTI's ABI, which the loader opens like the real
// one, and which does what a test tells it by the functions below. They are found by dlsym.
//
// Records are given as bytes. Like CUPTI 13, each thread that emits fills a buffer of its own,
// which comes back when it is full or flushed.
#ifndef TESTS_COLLECTORS_CUDA_FAKE_CUPTI_FAKE_CUPTI_H_
#define TESTS_COLLECTORS_CUDA_FAKE_CUPTI_FAKE_CUPTI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// All as new: this version, nothing fails, nothing hangs, no counts. Hanging calls return.
void FakeCuptiReset(uint32_t version);

// From now on, records of this kind have this size: as in a newer library, or of a kind that we do
// not know. 0: this library does not know the kind.
void FakeCuptiSetRecordBytes(uint32_t kind, size_t bytes);

// From the call after `after` good ones on, the function returns `result`. "cuptiActivityEnable:10"
// means that function with that kind only.
void FakeCuptiFail(const char* function, int32_t result, uint32_t after);
// The function does not return until FakeCuptiRelease.
void FakeCuptiHang(const char* function);
void FakeCuptiRelease(void);
// Waits until a call hangs; 0: it did not within a while.
int FakeCuptiAwaitHang(void);
// Calls of the function since the reset; "": of all.
uint64_t FakeCuptiCalls(const char* function);

int FakeCuptiIsEnabled(uint32_t kind);
int FakeCuptiIsSubscribed(void);
// Somebody else is subscribed, under this name ("": without one); null: nobody.
void FakeCuptiSetOwner(const char* name);
void FakeCuptiSetClockOffset(int64_t ns);  // of cuptiGetTimestamp to CLOCK_REALTIME
void FakeCuptiAddDropped(size_t records);
// A call of this thread into the runtime (2) or the driver (1), as a subscriber hears of it.
// Returns how often its callback ran: 2, or less if it does not listen.
int FakeCuptiApiCall(uint32_t domain);
// One side of a call of this thread: it enters (0) or returns (1). Returns whether
// the subscriber's callback ran.
int FakeCuptiApiSite(uint32_t domain, uint32_t site, const char* function);
// An attribute of the activity API as it is now.
uint64_t FakeCuptiAttribute(uint32_t attribute);
void FakeCuptiSetAttribute(uint32_t attribute, uint64_t value);  // by another client
// Counters of unified memory that were asked for.
int FakeCuptiUnifiedMemoryCounters(void);
// CUPTI's own report to its subscriber.
void FakeCuptiReportState(uint32_t cbid, int32_t result, const char* message);

// One record into the calling thread's buffer. Returns its number if it is kept; 0: its kind is not
// enabled, or there was no buffer (then it counts as dropped). Work without an end has not ended:
// like CUPTI, the fake withholds its buffer, with all that is in it, until it ends or a flush is
// forced.
uint64_t FakeCuptiEmit(const void* record, size_t bytes);
// The times of work that was emitted without; an end of 0: it runs. 0: the record was given back
// before, or its kind disabled, and nobody will see them.
int FakeCuptiSetTimes(uint64_t work, uint64_t start_ns, uint64_t end_ns);
// A buffer of these very bytes, which comes back at once, from this thread. 0: no buffer.
int FakeCuptiDeliver(const void* bytes, size_t size);
// Holds records back, where nobody sees them: each flush returns those of one call.
void FakeCuptiHoldBack(const void* bytes, size_t size);
// A buffer that CUPTI holds on to; null: none was given.
void* FakeCuptiTake(void);
void FakeCuptiReturn(void* buffer, const void* bytes, size_t size);

#ifdef __cplusplus
}
#endif
#endif  // TESTS_COLLECTORS_CUDA_FAKE_CUPTI_FAKE_CUPTI_H_
