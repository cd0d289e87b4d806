// SPDX-License-Identifier: Apache-2.0
//
// Defines what both services of a server share.
#ifndef SERVER_SERVICES_SERVICE_CONTEXT_H_
#define SERVER_SERVICES_SERVICE_CONTEXT_H_

#include <cstdint>
#include <memory>

#include "server/limits.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/ceilings.h"
#include "server/services/gpu_source.h"
#include "server/services/step_source.h"
#include "server/session/session_manager.h"

namespace jobscope {

struct ServiceContext {
  std::shared_ptr<SessionManager> sessions;
  CallRegistry* calls = nullptr;  // outlives the services
  StepSource steps;
  GpuSource gpus;
  uint64_t store_bytes = limits::kDefaultStoreBytes;  // limit of one capture
  Ceilings ceilings;
  std::shared_ptr<CaptureRate> rate;
};

}  // namespace jobscope

#endif  // SERVER_SERVICES_SERVICE_CONTEXT_H_
