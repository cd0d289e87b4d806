// SPDX-License-Identifier: Apache-2.0
//
// Traces and answers as workers of several kinds send them.
#ifndef TESTS_CLIENT_FAKE_TRACES_H_
#define TESTS_CLIENT_FAKE_TRACES_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "jobscope/v1/item.pb.h"
#include "tensorflow/profiler_service.pb.h"
#include "tensorflow/xplane.pb.h"

namespace jobscope {

// An XSpace with `events` events on one line. `summary`, if given, is carried as our workers carry
// it.
inline tensorflow::profiler::XSpace MakeTrace(int events, const std::string& hostname,
                                              const v1::Summary* summary = nullptr) {
  tensorflow::profiler::XSpace space;
  space.add_hostnames(hostname);
  tensorflow::profiler::XPlane& host = *space.add_planes();
  host.set_name("/host:CPU");
  tensorflow::profiler::XEventMetadata& step = (*host.mutable_event_metadata())[1];
  step.set_id(1);
  step.set_name("step");
  tensorflow::profiler::XLine& line = *host.add_lines();
  line.set_id(7);
  line.set_name("main");
  for (int i = 0; i < events; ++i) {
    tensorflow::profiler::XEvent& event = *line.add_events();
    event.set_metadata_id(1);
    event.set_offset_ps(int64_t{i} * 1'000'000);
    event.set_duration_ps(500'000);
  }
  tensorflow::profiler::XPlane& environment = *space.add_planes();
  environment.set_name("Task Environment");
  const auto add_stat = [&environment](int64_t id, const std::string& name) {
    tensorflow::profiler::XStatMetadata& metadata = (*environment.mutable_stat_metadata())[id];
    metadata.set_id(id);
    metadata.set_name(name);
    tensorflow::profiler::XStat& stat = *environment.add_stats();
    stat.set_metadata_id(id);
    return &stat;
  };
  add_stat(1, "profile_start_time")->set_uint64_value(1'700'000'000'000'000'000);
  add_stat(2, "profile_stop_time")->set_uint64_value(1'700'000'001'000'000'000);
  if (summary != nullptr) {
    add_stat(3, "jobscope_summary")->set_bytes_value(summary->SerializeAsString());
  }
  return space;
}

inline v1::Summary MakeSummary(uint64_t events, uint64_t lost = 0) {
  v1::Summary summary;
  summary.set_schema(1);
  summary.set_version("0.1.0");
  summary.mutable_identity()->set_host("node1");
  summary.mutable_identity()->set_pid(4711);
  summary.mutable_identity()->set_has_rank(true);
  summary.mutable_identity()->set_rank(3);
  summary.set_zero_unix_ns(1'700'000'000'000'000'000);
  summary.set_duration_ns(1'000'000'000);
  summary.set_events(events);
  summary.set_attempted(events + lost);
  summary.set_lost(lost);
  if (lost > 0) {
    v1::LossByCause& cause = *summary.add_lost_by_cause();
    cause.set_cause("overwritten");
    cause.set_events(lost);
  }
  summary.set_has_steps(true);
  summary.set_steps(5);
  summary.set_ended_by("duration");
  v1::CollectorState& host = *summary.add_collectors();
  host.set_name("host");
  host.set_state("on");
  host.set_events(events);
  host.set_lost(lost);
  return summary;
}

// The same bytes, cut into slices of `size`.
inline std::vector<grpc::Slice> Slices(const std::string& bytes, size_t size) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += size) {
    slices.emplace_back(bytes.data() + at, std::min(size, bytes.size() - at));
  }
  return slices;
}

inline grpc::ByteBuffer Buffer(const std::string& bytes, size_t slice_size = 8192) {
  const std::vector<grpc::Slice> slices = Slices(bytes, slice_size);
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace jobscope

#endif  // TESTS_CLIENT_FAKE_TRACES_H_
