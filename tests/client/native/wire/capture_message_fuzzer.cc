// SPDX-License-Identifier: Apache-2.0
//
// A message of a worker. All that is found lies within it, and the fields of its items follow each
// other; what is no item is a message of the protocol, or an error.
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "client/native/wire/capture_message.h"
#include "client/native/wire/native_messages.h"
#include "client/native/wire/worker_message.h"
#include "tests/fuzz_input.h"
#include "tests/silent_protobuf.h"

namespace jobscope {
namespace {

bool Within(std::string_view part, std::string_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void CheckItems(std::string_view bytes) {
  const auto message = ReadCaptureMessage(bytes);
  if (!message.ok()) return;
  Require(Within(message->bytes, bytes));
  const char* behind = message->bytes.data();
  const auto take = [&message, &behind](const ItemField& item) {
    Require(Within(item.field, message->bytes) && Within(item.body, item.field));
    Require(item.field.data() >= behind);
    behind = item.field.data() + item.field.size();
    (void)ReadEventsHead(item.body).ok();
    return absl::OkStatus();
  };
  (void)ReadItems(message->bytes, take).ok();
  const auto chunk = ReadChunk(message->bytes);
  if (chunk.ok()) Require(Within(chunk->data, message->bytes));
}

// As gRPC hands it over, in two slices.
void CheckMessage(std::string_view bytes) {
  const grpc::Slice slices[] = {
      grpc::Slice(std::string(bytes.substr(0, bytes.size() / 3))),
      grpc::Slice(std::string(bytes.substr(bytes.size() / 3))),
  };
  const grpc::ByteBuffer buffer(slices, 2);
  Require(Join(buffer) == bytes);
  Require(FirstByte(buffer) == (bytes.empty() ? -1 : static_cast<unsigned char>(bytes[0])));
  if (HoldsItems(buffer)) return;
  const auto message = ReadWorkerMessage(buffer);
  if (!message.ok()) return;
  if (const auto* const armed = std::get_if<v1::Armed>(&*message)) {
    constexpr uint64_t kSentNs = 1;
    const auto clock = ClockOf(*armed, kSentNs);
    if (clock.has_value()) Require(armed->sent_monotonic_ns() != 0);
  }
  if (const auto* const ended = std::get_if<v1::Ended>(&*message)) {
    Require(!StatusOf(*ended).ok());
  }
}

}  // namespace
}  // namespace jobscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const jobscope::SilentProtobuf silent;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  jobscope::CheckItems(bytes);
  jobscope::CheckMessage(bytes);
  return 0;
}
