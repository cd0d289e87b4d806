// SPDX-License-Identifier: Apache-2.0
//
// Generates random sessions: items as collectors would make them, and the same trace as plain
// protobuf objects.
#ifndef TESTS_COMMON_XSPACE_ASSEMBLE_RANDOM_TRACE_H_
#define TESTS_COMMON_XSPACE_ASSEMBLE_RANDOM_TRACE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/xspace/segment/store.h"
#include "jobscope/v1/item.pb.h"
#include "tensorflow/xplane.pb.h"

namespace jobscope::xspace {

struct RandomTraceOptions {
  uint64_t seed = 1;
  size_t events = 1000;     // about
  bool with_extras = true;  // raw planes, losses, clocks, a summary
};

struct RandomTrace {
  std::unique_ptr<Store> store;
  // What the trace must contain: planes by name, lines by id, events in no particular order.
  tensorflow::profiler::XSpace reference;
  // Raw planes as they went in.
  std::vector<tensorflow::profiler::XPlane> raw_planes;
  v1::Summary summary;
};

RandomTrace MakeRandomTrace(const RandomTraceOptions& options);

// An event as text, ids resolved: equal texts, equal events. Fails the test where an id does not
// resolve.
std::string Describe(const tensorflow::profiler::XPlane& plane,
                     const tensorflow::profiler::XEvent& event);
std::string Describe(const tensorflow::profiler::XPlane& plane,
                     const tensorflow::profiler::XStat& stat);

}  // namespace jobscope::xspace

#endif  // TESTS_COMMON_XSPACE_ASSEMBLE_RANDOM_TRACE_H_
