// SPDX-License-Identifier: Apache-2.0
//
// Every bound on what a peer may ask of a worker, in one place. A request beyond one of them is
// refused with INVALID_ARGUMENT that names field, value and range.
#ifndef SERVER_LIMITS_H_
#define SERVER_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace jobscope::limits {

// ---- time ----

// Of one capture. The store is bounded, so a longer one would mostly record losses, and hold the
// one slot meanwhile.
inline constexpr uint64_t kMaxDurationMs = 3'600'000;
// How far ahead a start may lie. Stock clients use at most a few seconds; more is a clock that is
// wrong.
inline constexpr absl::Duration kMaxStartDelay = absl::Hours(1);
// A start that is not longer ago than this is still the trace's zero; one that is older is taken as
// "now", because the peer's clock is then of no use. Stock clients always send their own "now".
inline constexpr absl::Duration kMaxStartAge = absl::Seconds(5);
// Of a snapshot: as far back as the C ABI allows.
inline constexpr absl::Duration kMaxLookback = absl::Hours(1);
inline constexpr uint64_t kMaxMonitorMs = 60'000;

// ---- native captures ----

// How long a started capture without a stream is held: a client that reconnects does so within
// seconds; the memory belongs to the job.
inline constexpr absl::Duration kHold = absl::Seconds(60);
// A recording whose client's stream is lost ends after this long, and is then held as above: the
// client was killed, or its network is gone, and nobody else may record meanwhile. A client that
// lives takes its stream up again within 5 s.
inline constexpr absl::Duration kResumeTime = absl::Seconds(10);
// An armed capture that is not started has the one slot and its rings: a client that waits for its
// slowest worker needs seconds.
inline constexpr absl::Duration kMaxArmed = absl::Minutes(10);
// A client that takes nothing of a capture that has ended gives up the slot after this long, and
// the capture after kHold.
inline constexpr absl::Duration kMaxDeliveryStall = absl::Seconds(10);
// A unary caller that has not taken its answer after this long, and a second for each of so many
// bytes, is cut off: until then it holds the slot and the store. gRPC does not tell how much of an
// answer has left, so that a caller that stands still and one that is slow look the same. Longer
// than `capture` waits for an answer.
inline constexpr absl::Duration kMaxAnswerTime = absl::Minutes(2);
inline constexpr uint64_t kMinAnswerBytesPerSecond = uint64_t{1} << 20;
inline constexpr absl::Duration kProgressInterval = absl::Milliseconds(200);
// Of the zero of a trace before its start.
inline constexpr absl::Duration kMaxZeroBeforeStart = absl::Hours(2);
// Of a client's REALTIME against ours, and of its own doubt about it: a century and an hour.
inline constexpr int64_t kMaxClockOffsetNs = 3'155'760'000'000'000'000;
inline constexpr uint64_t kMaxClockUncertaintyNs = 3'600'000'000'000;
inline constexpr size_t kCaptureKeyBytes = 32;
// Of items in one message. Small, because a client behind a slow link sees nothing of a message
// before its last byte: 64 KiB take half a second at 120 kB/s. Segments are at most 64 KiB; what is
// larger (a framework's own plane) comes in chunks of this size, where the client takes chunks.
inline constexpr size_t kMaxMessageItemBytes = size_t{64} << 10;
// Of one item. A client that takes no chunks must be ready to receive a message of this size.
inline constexpr size_t kMaxItemBytes = size_t{32} << 20;
inline constexpr uint64_t kMaxPings = 1'000;
inline constexpr absl::Duration kMaxClockIdle = absl::Minutes(10);
// What is known of GPUs is asked for anew when it is older than this; the first Describe, and each
// Monitor, wait for the answer for so long at most, without a thread.
inline constexpr absl::Duration kGpusAge = absl::Seconds(1);
inline constexpr absl::Duration kFirstGpusWait = absl::Milliseconds(100);

// ---- levels ----

inline constexpr uint32_t kMaxHostLevel = 3;
inline constexpr uint32_t kMaxDeviceLevel = 1;
inline constexpr uint32_t kMaxPythonLevel = 2;
inline constexpr int32_t kMaxMonitoringLevel = 2;

// ---- sizes ----

// Of a request on the wire. Real ones take under 1 KiB. This bounds what we look at, not gRPC's
// memory: gRPC 1.51 takes in a whole message before it looks at its size. 800 calls of 4 MB at once
// took a worker from 16 MB to 0.5 to 2.3 GB (measured); a ResourceQuota of 64 MiB reset some of the
// streams, and the peak was 1.4 GB all the same.
inline constexpr int kMaxRequestBytes = 128 << 10;
// Of an answer, which holds one part of a trace (xspace::kMaxPartBytes). Peers receive at most
// 2^31 - 1 bytes (measured; one byte more is RESOURCE_EXHAUSTED at the client, and over 2^31 gRPC
// itself aborts the process).
inline constexpr uint64_t kMaxAnswerBytes = uint64_t{1900} << 20;
// Of the text of a status: it travels percent-encoded in HTTP/2 trailers, which peers limit to 8
// KiB in all.
inline constexpr size_t kMaxStatusTextBytes = 2'000;

inline constexpr uint64_t kMinStoreBytes = uint64_t{1} << 20;
inline constexpr uint64_t kMaxStoreBytes =
    uint64_t{1900} << 20;  // a full one fits an answer: 5 % of it are kept free of events
inline constexpr uint64_t kDefaultStoreBytes = uint64_t{256} << 20;

// ---- strings and lists ----

inline constexpr size_t kMaxSessionIdBytes = 256;
inline constexpr size_t kMaxHostNameBytes = 512;  // a DNS name takes 253, a port 6, a unix path 108
inline constexpr size_t kMaxPathBytes = 4096;
inline constexpr size_t kMaxSnapshotIdBytes = 128;  // as stock servers have it
inline constexpr int kMaxTools = 64;
inline constexpr size_t kMaxToolBytes = 256;
inline constexpr int kMaxConfigurationKeys = 256;
inline constexpr size_t kMaxConfigurationKeyBytes = 256;
inline constexpr size_t kMaxConfigurationValueBytes = 4096;
// Ignored options that are named in the answer, and how much of a name is repeated.
inline constexpr size_t kMaxIgnoredNamed = 32;
inline constexpr size_t kMaxIgnoredNameBytes = 64;
inline constexpr size_t kMaxFileStemBytes =
    200;  // a file name takes at most 255 bytes, with its suffix

// ---- numbers ----

// Calls that wait or run at one time. Each costs a few KiB; a fleet of stock clients that ask one
// worker is far smaller. Those that are answered do not count, though gRPC may still be sending: on
// a starved machine it says late that it is done (a few Describes of a client that asked one after
// the other were refused). All in all they are bounded, too.
inline constexpr size_t kMaxCalls = 256;
inline constexpr size_t kMaxCallsWithAnswered = 4 * kMaxCalls;
inline constexpr int kMaxStreamsPerConnection = 100;

// ---- connections ----

// Descriptors that all connections may hold together: one for each, and a second one until its
// first request. So 32 callers may begin at one time, and 62 stay.
inline constexpr size_t kMaxConnectionDescriptors = 64;
// The last free descriptors of the process are the job's: nothing is accepted while there are fewer
// (and two for the connection itself).
inline constexpr size_t kFreeDescriptors = 16;
// Of a connection whose peer says nothing at all, and of one that does not end its TLS handshake
// and HTTP/2's first exchange.
inline constexpr absl::Duration kMaxSilence = absl::Seconds(10);
inline constexpr int kHandshakeTimeoutMs = 10'000;
// Of a connection without a call; the peer is told, and its next call makes a new one.
inline constexpr int kMaxIdleMs = 60'000;
// A peer that was cut off or stopped, rather than killed, is noticed by pings while one of its
// calls is open: after both of these times at the latest. The timeout is generous, because a ping
// queues behind the answer on a slow link.
inline constexpr int kKeepaliveTimeMs = 10'000;
inline constexpr int kKeepaliveTimeoutMs = 20'000;
// A client may ping this often while it waits for its answer. gRPC's default of 5 minutes would cut
// off one that watches over a long capture.
inline constexpr int kMinClientPingIntervalMs = 5'000;

}  // namespace jobscope::limits

#endif  // SERVER_LIMITS_H_
