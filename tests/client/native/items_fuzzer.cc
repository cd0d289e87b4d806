// SPDX-License-Identifier: Apache-2.0
//
// What a worker streams, through receiver, spool, index and assembler: an error, or a trace that
// protobuf reads and that has the events that were counted. The input is a sequence of {operation,
// size (2 bytes, little-endian), bytes}; its first byte chooses the limits.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "client/native/item_receiver.h"
#include "common/xspace/assemble/assembler.h"
#include "tensorflow/xplane.pb.h"

namespace jobscope {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

class StringSink : public xspace::ByteSink {
 public:
  absl::Status Write(std::string_view bytes, bool) override {
    text.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  std::string text;
};

// A message with one item, so that what the fuzzer makes up is a body and not its wrapping.
std::string OneItem(uint64_t number, uint8_t kind, std::string_view body) {
  std::string item;
  protozero::pbf_writer writer(item);
  writer.add_uint64(1, number);
  writer.add_bytes(std::max<uint32_t>(2, kind % 16), body.data(), body.size());
  std::string items;
  protozero::pbf_writer(items).add_message(1, item);
  return items;
}

// Items that came before, gaps, pieces, whole messages.
void Play(std::string_view input, ItemReceiver* receiver) {
  std::string last;
  while (input.size() >= 3) {
    const auto operation = static_cast<uint8_t>(input[0]);
    const size_t wanted = static_cast<uint8_t>(input[1]) | static_cast<uint8_t>(input[2]) << 8;
    input.remove_prefix(3);
    const std::string bytes(input.substr(0, std::min(wanted, input.size())));
    input.remove_prefix(bytes.size());
    const uint64_t next = receiver->received().last_item + 1;
    switch (operation % 8) {
      case 0:
        last = bytes;
        (void)receiver->Take(last).ok();
        break;
      case 1: {
        const absl::StatusOr<ItemChunk> chunk = ReadChunk(bytes);
        if (chunk.ok()) (void)receiver->TakeChunk(*chunk).ok();
        break;
      }
      case 2:  // once more
        (void)receiver->Take(last).ok();
        break;
      case 3: {  // a gap, or one that came before
        const uint64_t before = receiver->received().last_item;
        (void)receiver->Take(OneItem(next + 1, operation / 8, bytes)).ok();
        Require(receiver->received().last_item == before);
        break;
      }
      case 4: {  // in two pieces
        ItemChunk chunk;
        chunk.number = next;
        chunk.kind = static_cast<xspace::ItemKind>(2 + operation / 8 % 9);
        chunk.body_bytes = bytes.size();
        chunk.data = std::string_view(bytes).substr(0, bytes.size() / 2);
        if (!receiver->TakeChunk(chunk).ok()) break;
        chunk.offset = chunk.data.size();
        chunk.data = std::string_view(bytes).substr(chunk.offset);
        (void)receiver->TakeChunk(chunk).ok();
        break;
      }
      default:
        last = OneItem(next, operation / 8, bytes);
        (void)receiver->Take(last).ok();
    }
  }
}

void Assemble(const SpoolItems& items, xspace::ItemIndex index) {
  xspace::AssembleOptions options;
  options.hostname = "fuzz";
  options.part_limit_bytes = 4096;
  options.keep_readable = true;
  (void)items;  // what the index points to
  const auto assembler = xspace::Assembler::CreateIndexed(std::move(index), options);
  if (!assembler.ok()) return;
  (void)assembler->CountSteps();
  for (size_t i = 0; i < assembler->parts().size(); ++i) {
    StringSink sink;
    Require(assembler->Write(i, &sink).ok());
    Require(sink.text.size() == assembler->parts()[i].size_bytes);
    tensorflow::profiler::XSpace space;
    Require(space.ParseFromString(sink.text));
  }
}

}  // namespace
}  // namespace jobscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  static const google::protobuf::LogSilencer silencer;
  if (size == 0) return 0;
  ReceiveLimits limits;
  limits.other_bytes = uint64_t{1} << (10 + data[0] % 8);
  limits.tail_bytes = 1024;
  ItemReceiver receiver("/tmp", (data[0] & 8) != 0 ? 8192 : 0, limits);
  Play({reinterpret_cast<const char*>(data) + 1, size - 1}, &receiver);
  const ReceivedItems received = receiver.received();
  const std::unique_ptr<Spool> spool = receiver.TakeSpool();
  if (spool == nullptr) return 0;
  std::unique_ptr<SpoolIndex> index = receiver.TakeIndex();
  if (index == nullptr) index = std::make_unique<SpoolIndex>(spool.get());
  if (!index->Complete(received.index_bytes).ok()) return 0;
  Assemble(index->items(), index->TakeIndex());
  return 0;
}
