// SPDX-License-Identifier: Apache-2.0
//
// Bounds on what a peer may ask of a worker, all in one place. A request beyond one of them is
// refused with INVALID_ARGUMENT, which names field, value and range.
#ifndef SERVER_LIMITS_H_
#define SERVER_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace jobscope::limits {

// ---- time ----

// Longest capture. The store is bounded, so a longer one would mostly record losses while it holds
// the only slot.
inline constexpr uint64_t kMaxDurationMs = 3'600'000;
// How far ahead a start may lie. Stock clients use at most a few seconds; a larger value comes from
// a wrong clock.
inline constexpr absl::Duration kMaxStartDelay = absl::Hours(1);
// How old a start may be to serve as the trace's zero. An older one counts as "now", because the
// peer's clock is then unusable. Stock clients always send their own "now".
inline constexpr absl::Duration kMaxStartAge = absl::Seconds(5);
// Longest lookback of a snapshot: as long as the C ABI allows.
inline constexpr absl::Duration kMaxLookback = absl::Hours(1);
inline constexpr uint64_t kMaxMonitorMs = 60'000;

// ---- native captures ----

// How long a started capture without a stream is held. A client reconnects within seconds, and the
// memory belongs to the job.
inline constexpr absl::Duration kHold = absl::Seconds(60);
// How long a recording continues after its client's stream is lost (the client was killed, or its
// network is down), because it blocks other captures; it is then held for kHold. A live client
// knows of the loss after at most 7 s of silence, when it asks over another connection
// (Busy.client_lost_ms), and resumes its stream at once.
inline constexpr absl::Duration kResumeTime = absl::Seconds(10);
// How long an armed capture may wait for its start: it holds the only slot and its rings. A client
// that waits for its slowest worker needs seconds.
inline constexpr absl::Duration kMaxArmed = absl::Minutes(10);
// A client that takes nothing of an ended capture loses the slot after this time, and the capture
// after kHold.
inline constexpr absl::Duration kMaxDeliveryStall = absl::Seconds(10);
// A unary caller that has not taken its answer after kMaxAnswerTime, plus a second for every
// kMinAnswerBytesPerSecond bytes, is cut off: until then it holds the slot and the store. gRPC does
// not say how much of an answer has been sent, so a stalled caller and a slow one look the same.
// Longer than `capture` waits for an answer.
inline constexpr absl::Duration kMaxAnswerTime = absl::Minutes(2);
inline constexpr uint64_t kMinAnswerBytesPerSecond = uint64_t{1} << 20;
// How far a trace's zero may lie before its start.
inline constexpr absl::Duration kMaxZeroBeforeStart = absl::Hours(2);
// Largest offset of a client's REALTIME from ours (a century), and largest uncertainty (an hour).
inline constexpr int64_t kMaxClockOffsetNs = 3'155'760'000'000'000'000;
inline constexpr uint64_t kMaxClockUncertaintyNs = 3'600'000'000'000;
inline constexpr size_t kCaptureKeyBytes = 32;
// Item bytes in one message. Small, because a client on a slow link cannot use a message before its
// last byte: 64 KiB take half a second at 120 kB/s. Segments have at most 64 KiB; larger items (a
// framework's own plane) travel in chunks of this size if the client accepts chunks.
inline constexpr size_t kMaxMessageItemBytes = size_t{64} << 10;
// Largest item. A client that does not accept chunks must be able to receive a message of this
// size.
inline constexpr size_t kMaxItemBytes = size_t{32} << 20;
inline constexpr uint64_t kMaxPings = 1'000;
inline constexpr absl::Duration kMaxClockIdle = absl::Minutes(10);
// The GPU state is refreshed when it is older than kGpusAge; the first Describe, and each Monitor,
// wait for it for at most kFirstGpusWait, without a thread.
inline constexpr absl::Duration kGpusAge = absl::Seconds(1);
inline constexpr absl::Duration kFirstGpusWait = absl::Milliseconds(100);

// ---- levels ----

inline constexpr int32_t kMaxMonitoringLevel = 2;

// ---- sizes ----

// Largest request on the wire; real ones take under 1 KiB. This bounds what we parse, not gRPC's
// memory: gRPC 1.51 reads a whole message before it checks its size. 800 concurrent calls of 4 MB
// grew a worker from 16 MB to 0.5-2.3 GB (measured); a ResourceQuota of 64 MiB reset some of the
// streams, and the peak was still 1.4 GB.
inline constexpr int kMaxRequestBytes = 128 << 10;
// Largest answer; it holds one part of a trace (xspace::kMaxPartBytes). Peers receive at most 2^31
// - 1 bytes (measured: one byte more is RESOURCE_EXHAUSTED at the client, and over 2^31 gRPC itself
// aborts the process).
inline constexpr uint64_t kMaxAnswerBytes = uint64_t{1900} << 20;
// Largest text of a status: it travels percent-encoded in HTTP/2 trailers, which peers limit to 8
// KiB in total.
inline constexpr size_t kMaxStatusTextBytes = 2'000;

inline constexpr uint64_t kMinStoreBytes = uint64_t{1} << 20;
inline constexpr uint64_t kMaxStoreBytes =
    uint64_t{1900} << 20;  // a full one fits an answer: 5 % of it are kept free of events
inline constexpr uint64_t kDefaultStoreBytes = uint64_t{256} << 20;

// Bounds of the ceilings that an operator may set for one trace, and for captures.
inline constexpr uint64_t kMinTraceBytes = uint64_t{1} << 20;
inline constexpr uint64_t kMaxTraceBytes = uint64_t{1} << 50;
inline constexpr uint32_t kMaxCapturesPerMinute = 1'000'000;

// ---- strings and lists ----

inline constexpr size_t kMaxSessionIdBytes = 256;
inline constexpr size_t kMaxHostNameBytes = 512;  // a DNS name takes 253, a port 6, a unix path 108
inline constexpr size_t kMaxPathBytes = 4096;
inline constexpr size_t kMaxSnapshotIdBytes = 128;  // as in stock servers
inline constexpr int kMaxTools = 64;
inline constexpr size_t kMaxToolBytes = 256;
inline constexpr int kMaxConfigurationKeys = 256;
inline constexpr size_t kMaxConfigurationKeyBytes = 256;
inline constexpr size_t kMaxConfigurationValueBytes = 4096;
// How many ignored options the answer names, and how much of a name it repeats.
inline constexpr size_t kMaxIgnoredNamed = 32;
inline constexpr size_t kMaxIgnoredNameBytes = 64;
// A file name with its suffix takes at most 255 bytes.
inline constexpr size_t kMaxFileStemBytes = 200;

// ---- numbers ----

// Calls that wait or run at one time. Each costs a few KiB; fleets of stock clients that call one
// worker are far smaller. Answered calls do not count, although gRPC may still be sending: on a
// starved machine it reports their end late, and a client that sends one Describe after the other
// would be refused. The total is bounded, too.
inline constexpr size_t kMaxCalls = 256;
inline constexpr size_t kMaxCallsWithAnswered = 4 * kMaxCalls;
inline constexpr int kMaxStreamsPerConnection = 100;

// ---- connections ----

// Descriptors that all connections together may hold: one per connection, and a second one until
// its first request. So 32 callers may connect at one time, and 62 stay connected.
inline constexpr size_t kMaxConnectionDescriptors = 64;
// The last free descriptors of the process belong to the job: the server accepts nothing while
// fewer are free (plus three for the connection itself).
inline constexpr size_t kFreeDescriptors = 16;
// Memory that must be mappable when gRPC gets a connection, because gRPC ends the process if an
// allocation fails: with up to 4 MiB it sometimes did. Covers one more thread with its stack.
inline constexpr uint64_t kConnectionBytes = uint64_t{16} << 20;
// How long a connection may stay silent, and how long its TLS handshake and HTTP/2's first exchange
// may take.
inline constexpr absl::Duration kMaxSilence = absl::Seconds(10);
inline constexpr int kHandshakeTimeoutMs = 10'000;
// How long a connection without a call is kept; the peer is notified, and its next call reconnects.
inline constexpr int kMaxIdleMs = 60'000;
// Pings detect a peer that was disconnected or stopped, rather than killed, while one of its calls
// is open: after the sum of both times at the latest. The timeout is generous, because a ping
// queues behind the answer on a slow link.
inline constexpr int kKeepaliveTimeMs = 10'000;
inline constexpr int kKeepaliveTimeoutMs = 20'000;
// How often a client may ping while it waits for its answer. gRPC's default of 5 minutes would
// disconnect a client that watches a long capture.
inline constexpr int kMinClientPingIntervalMs = 5'000;

}  // namespace jobscope::limits

#endif  // SERVER_LIMITS_H_
