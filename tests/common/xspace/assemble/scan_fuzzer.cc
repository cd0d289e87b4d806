// SPDX-License-Identifier: Apache-2.0
//
// A file from anywhere: an error or an account of it; and where protobuf reads it too, the same
// account.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/xspace/assemble/scan.h"
#include "common/xspace/segment/raw_plane.h"
#include "tensorflow/xplane.pb.h"
#include "tests/silent_protobuf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const jobscope::SilentProtobuf silent;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto scan = jobscope::xspace::ScanXSpace(bytes);
  if (scan.ok()) {
    tensorflow::profiler::XSpace space;
    if (space.ParseFromArray(data, static_cast<int>(size))) {
      uint64_t lines = 0;
      uint64_t events = 0;
      for (const auto& plane : space.planes()) {
        lines += static_cast<uint64_t>(plane.lines_size());
        for (const auto& line : plane.lines()) events += static_cast<uint64_t>(line.events_size());
      }
      if (scan->planes != static_cast<uint64_t>(space.planes_size()) || scan->lines != lines ||
          scan->events != events) {
        std::abort();
      }
    }
  }
  // As the plane of a framework: what is taken must parse.
  const auto raw = jobscope::xspace::CheckRawPlane(bytes);
  if (raw.ok()) {
    tensorflow::profiler::XPlane plane;
    if (!plane.ParseFromArray(data, static_cast<int>(size))) std::abort();
    if (plane.name() != raw->name) std::abort();
  }
  return 0;
}
