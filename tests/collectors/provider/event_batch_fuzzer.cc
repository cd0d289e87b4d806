// SPDX-License-Identifier: Apache-2.0
//
// Events of a provider with any numbers, kinds and texts: refused, or kept within the limits of
// provider.h and as UTF-8 that is not cut inside of a character. The first bytes are the event, the
// rest its texts.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "collectors/provider/event_batch.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

// Hands out what the input has, and zeros after its end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  template <typename Number>
  Number Take() {
    Number number{};
    const size_t bytes = std::min(sizeof(number), size_);
    std::memcpy(&number, data_, bytes);
    data_ += bytes;
    size_ -= bytes;
    return number;
  }
  // A text with an end, in memory of its own. Sometimes a long one.
  const char* TakeText(std::vector<std::string>* texts) {
    const auto size = Take<uint8_t>();
    if (size == 255) return nullptr;
    std::string text;
    for (int i = 0; i < size && size_ > 0; ++i) text += static_cast<char>(Take<uint8_t>());
    text = text.substr(0, text.find('\0'));
    if (size > 250 && !text.empty()) {
      while (text.size() < 5000) text += std::string(text);
    }
    texts->push_back(std::move(text));
    return texts->back().c_str();
  }
  bool empty() const { return size_ == 0; }

 private:
  const uint8_t* data_;
  size_t size_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  jobscope::provider::EventBatch batch;
  for (int events = 0; !input.empty() && events < 16; ++events) {
    std::vector<std::string> texts;
    texts.reserve(200);  // pointers into them stay good
    std::vector<jobscope_provider_arg> args(input.Take<uint8_t>() % 48);
    for (jobscope_provider_arg& arg : args) {
      arg = {};
      arg.key = input.TakeText(&texts);
      arg.type = input.Take<int8_t>() % 6;
      arg.value.int64_value = input.Take<int64_t>();
      if (arg.type == JOBSCOPE_PROVIDER_TEXT) arg.value.text = input.TakeText(&texts);
    }
    jobscope_provider_event event = {};
    event.size = sizeof(event);
    event.name = input.TakeText(&texts);
    event.line = input.TakeText(&texts);
    event.thread_id = input.Take<int64_t>();
    event.begin_ns = input.Take<int64_t>();
    event.duration_ns = input.Take<int64_t>();
    event.kind = input.Take<int8_t>() % 4;
    event.value = input.Take<double>();
    event.args = args.empty() ? nullptr : args.data();
    event.arg_count = args.size();
    const size_t before = batch.events().size();
    const bool taken = batch.Add(event);
    Require(batch.events().size() == before + (taken ? 1 : 0));
    if (!taken) continue;
    const auto& kept = batch.events().back();
    Require(kept.duration_ns >= 0 && kept.arg_count <= JOBSCOPE_PROVIDER_MAX_ARGS);
    Require(!batch.text(kept.name).empty() && batch.text(kept.name).size() <= 1024);
    for (int i = 0; i < kept.arg_count; ++i) {
      Require(batch.text(batch.args(kept)[i].text).size() <= 4096);
    }
  }
  return 0;
}
