// SPDX-License-Identifier: Apache-2.0
//
// Serialises the client's messages on the streams of jobscope.v1.Profiler.
#ifndef CLIENT_NATIVE_WIRE_NATIVE_MESSAGES_H_
#define CLIENT_NATIVE_WIRE_NATIVE_MESSAGES_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <string>

#include "client/worker/worker_client.h"

namespace jobscope {

inline constexpr char kCaptureMethod[] = "/jobscope.v1.Profiler/Capture";
inline constexpr char kFetchMethod[] = "/jobscope.v1.Profiler/Fetch";
inline constexpr char kSyncClockMethod[] = "/jobscope.v1.Profiler/SyncClock";

// The two streams that carry items. Their requests have the same meaning, but different types.
enum class ItemStream { kCapture, kFetch };

std::string ArmBytes(const ArmCall& call);
// Converts the instants to the worker's clock; without a known clock the worker starts at once.
std::string StartBytes(const StartCall& call);
// `next_offset`: how many bytes of the body of `next_item` have already arrived.
std::string ResumeBytes(const std::string& capture_key, uint64_t next_item, uint64_t next_offset);
std::string AckBytes(ItemStream stream, uint64_t through);
std::string FinishBytes(ItemStream stream, bool abandon);
std::string PingBytes(uint64_t number);

// Joins all slices of a message.
std::string Join(const grpc::ByteBuffer& bytes);
// Returns the message's first byte; -1 if it is empty.
int FirstByte(const grpc::ByteBuffer& bytes);

}  // namespace jobscope

#endif  // CLIENT_NATIVE_WIRE_NATIVE_MESSAGES_H_
