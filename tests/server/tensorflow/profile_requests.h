// SPDX-License-Identifier: Apache-2.0
//
// Requests of ProfilerService, good and absurd.
#ifndef TESTS_SERVER_TENSORFLOW_PROFILE_REQUESTS_H_
#define TESTS_SERVER_TENSORFLOW_PROFILE_REQUESTS_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/time/time.h"
#include "server/limits.h"
#include "server/tensorflow/tensorflow_validation.h"

namespace jobscope {

inline constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

inline CallContext Context() {
  CallContext context;
  context.peer = "127.0.0.1:40123";
  context.now = absl::FromUnixSeconds(1'795'248'345);
  context.store_bytes = limits::kDefaultStoreBytes;
  context.own_host = "node7";
  return context;
}

// Returns what stock clients send.
inline tensorflow::ProfileRequest Stock() {
  tensorflow::ProfileRequest request;
  request.set_duration_ms(300);
  request.set_max_events(1'000'000);
  for (const char* tool :
       {"trace_viewer", "op_profile", "input_pipeline", "kernel_stats", "memory_viewer",
        "memory_profile", "overview_page", "pod_viewer", "tensorflow_stats", "xplane.pb"}) {
    request.add_tools(tool);
  }
  auto* opts = request.mutable_opts();
  opts->set_version(1);
  opts->set_include_dataset_ops(true);
  opts->set_host_tracer_level(2);
  opts->set_device_tracer_level(1);
  opts->set_enable_hlo_proto(true);
  opts->set_start_timestamp_ns(static_cast<uint64_t>(absl::ToUnixNanos(Context().now)) - 2'000'000);
  opts->set_duration_ms(300);
  opts->set_repository_path("/logs");
  request.set_repository_root("/logs/plugins/profile");
  request.set_session_id("2026_11_21_08_05_45");
  request.set_host_name("127.0.0.1:7301");
  return request;
}

inline const std::string& MiB() {
  static const auto* const text = new std::string(1 << 20, 'x');
  return *text;
}

}  // namespace jobscope

#endif  // TESTS_SERVER_TENSORFLOW_PROFILE_REQUESTS_H_
