// SPDX-License-Identifier: Apache-2.0
//
// Makes a program record its NVTX ranges without an environment variable. Includes no NVTX header,
// as <jobscope/nvtx.h> requires.
#include <stdio.h>

#include "jobscope/nvtx.h"
#include "jobscope/profiler_server.h"

JOBSCOPE_RECORD_NVTX

const char* Serve() {
  static char address[128];
  jobscope::ProfilerServerOptions options;
  options.address = "127.0.0.1:0";
  static const jobscope::ProfilerServer server = jobscope::ProfilerServer::Start(options);
  snprintf(address, sizeof(address), "%s",
           server ? server.address().c_str() : server.error().c_str());
  return address;
}
