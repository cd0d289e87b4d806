// SPDX-License-Identifier: Apache-2.0
//
// Implements the C ABI of the server. Only numbers and strings cross it.
#include "jobscope/jobscope_c.h"

#include <cstddef>
#include <cstring>
#include <string>

#include "common/process/identity.h"
#include "server/c_api/c_edge.h"
#include "server/guard/fork_guard.h"
#include "server/process/process_server.h"

namespace {

constexpr size_t kMaxAddressBytes = 1024;

constexpr size_t kMaxTextBytes = 4096;

// Returns false if the text is longer than `max_bytes`.
bool CopyText(const char* given, size_t max_bytes, std::string* copy) {
  if (given == nullptr) return true;
  const size_t size = strnlen(given, max_bytes + 1);
  if (size > max_bytes) return false;
  copy->assign(given, size);
  return true;
}

jobscope::StartOutcome Start(const jobscope_server_options* given) {
  jobscope_server_options options;
  if (!jobscope::CopyIn(given, offsetof(jobscope_server_options, insecure), &options)) {
    return {JOBSCOPE_E_INVALID, "options.size is not set: write options.size = sizeof(options)",
            ""};
  }
  jobscope::ServerOptions request;
  if (!CopyText(options.address, kMaxAddressBytes, &request.address)) {
    return {JOBSCOPE_E_INVALID, "options.address is longer than 1,024 bytes", ""};
  }
  const struct {
    const char* name;
    const char* given;
    std::string* copy;
  } texts[] = {{"tls_cert", options.tls_cert, &request.tls_cert},
               {"tls_key", options.tls_key, &request.tls_key},
               {"tls_ca", options.tls_ca, &request.tls_ca},
               {"token_file", options.token_file, &request.token_file},
               {"tls_allowed_names", options.tls_allowed_names, &request.tls_allowed_names},
               {"allow_users", options.allow_users, &request.allow_users},
               {"max_levels", options.max_levels, &request.max_levels}};
  for (const auto& text : texts) {
    if (CopyText(text.given, kMaxTextBytes, text.copy)) continue;
    return {JOBSCOPE_E_INVALID, std::string("options.") + text.name + " is longer than 4,096 bytes",
            ""};
  }
  request.insecure = options.insecure != 0;
  request.store_bytes = options.store_bytes;
  request.ring_records = options.ring_records;
  request.rings_cap_bytes = options.rings_cap_bytes;
  request.no_always_on = options.no_always_on != 0;
  request.max_duration_ms = options.max_duration_ms;
  request.max_trace_bytes = options.max_trace_bytes;
  request.max_captures_per_minute = options.max_captures_per_minute;
  request.allow_close = options.allow_close != 0;
  return jobscope::StartProcessServer(request);
}

}  // namespace

extern "C" {

const char* jobscope_version(void) { return jobscope::Version(); }

int jobscope_server_start(const jobscope_server_options* options, char* address,
                          size_t address_size, char* error, size_t error_size) {
  return jobscope::WithoutException(error, error_size, [&] {
    const jobscope::StartOutcome outcome = Start(options);
    jobscope::CopyOut(outcome.address, address, address_size);
    jobscope::CopyOut(outcome.error, error, error_size);
    return outcome.code;
  });
}

int jobscope_server_stop(void) {
  return jobscope::WithoutException(nullptr, 0, [] { return jobscope::StopProcessServer(); });
}

int jobscope_server_running(void) { return jobscope::ProcessServerRuns() ? 1 : 0; }

void jobscope_forked_child(void) { jobscope::LeaveServerInChild(); }

}  // extern "C"
