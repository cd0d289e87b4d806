// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "client/wire/capture_message.h"

namespace {

bool Within(std::string_view part, std::string_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

}  // namespace

// A message of a worker. All that is found lies within it, and the fields of its items follow each
// other.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto message = jobscope::ReadCaptureMessage(bytes);
  if (!message.ok()) return 0;
  if (!Within(message->bytes, bytes)) std::abort();
  const char* behind = message->bytes.data();
  const auto take = [&message, &behind](const jobscope::ItemField& item) {
    if (!Within(item.field, message->bytes) || !Within(item.body, item.field)) std::abort();
    if (item.field.data() < behind) std::abort();
    behind = item.field.data() + item.field.size();
    (void)jobscope::ReadEventsHead(item.body).ok();
    return absl::OkStatus();
  };
  (void)jobscope::ReadItems(message->bytes, take).ok();
  return 0;
}
