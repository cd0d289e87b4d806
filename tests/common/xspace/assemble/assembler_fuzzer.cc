// SPDX-License-Identifier: Apache-2.0
//
// Items from anywhere: an error, or a trace that protobuf reads. The input is a sequence of {kind,
// size (2 bytes, little-endian), body}; its first byte chooses the part limit.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "common/xspace/assemble/assembler.h"
#include "common/xspace/assemble/scan.h"
#include "common/xspace/segment/store.h"
#include "tensorflow/xplane.pb.h"
#include "tests/silent_protobuf.h"

namespace {

using jobscope::xspace::AssembleOptions;
using jobscope::xspace::Assembler;
using jobscope::xspace::ByteSink;
using jobscope::xspace::ItemKind;
using jobscope::xspace::ItemView;

class StringSink : public ByteSink {
 public:
  absl::Status Write(std::string_view bytes, bool) override {
    text.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  std::string text;
};

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const jobscope::SilentProtobuf silent;
  if (size == 0) return 0;
  AssembleOptions options;
  options.hostname = "fuzz";
  options.part_limit_bytes = uint64_t{1} << (data[0] % 32);
  std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  // Each body in memory of its own, so that a sanitizer sees a read beyond it.
  std::vector<std::string> bodies;
  std::vector<ItemKind> kinds;
  while (input.size() >= 3) {
    kinds.push_back(static_cast<ItemKind>(static_cast<uint8_t>(input[0])));
    const size_t wanted = static_cast<uint8_t>(input[1]) | static_cast<uint8_t>(input[2]) << 8;
    input.remove_prefix(3);
    const size_t taken = std::min(wanted, input.size());
    bodies.emplace_back(input.substr(0, taken));
    bodies.back().shrink_to_fit();
    input.remove_prefix(taken);
  }
  std::vector<ItemView> items;
  for (size_t i = 0; i < bodies.size(); ++i) items.push_back({i + 1, kinds[i], bodies[i]});

  const absl::StatusOr<Assembler> assembler = Assembler::Create(items, options);
  if (!assembler.ok()) return 0;
  uint64_t events = 0;
  for (size_t i = 0; i < assembler->parts().size(); ++i) {
    StringSink sink;
    Require(assembler->Write(i, &sink).ok());
    Require(sink.text.size() == assembler->parts()[i].size_bytes);
    tensorflow::profiler::XSpace space;
    Require(space.ParseFromString(sink.text));
    const auto scan = jobscope::xspace::ScanXSpace(sink.text);
    Require(scan.ok() && scan->events == assembler->parts()[i].events);
    events += scan->events;
  }
  Require(events == assembler->events());
  Require(assembler->CountSteps() <= events);
  return 0;
}
