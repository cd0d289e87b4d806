// SPDX-License-Identifier: Apache-2.0
#include "client/cli/base/targets.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/rpc/credentials.h"
#include "common/net/address_list.h"

namespace jobscope {

absl::StatusOr<Targets> PrepareTargets(const Flags& flags) {
  std::vector<std::string> notes;
  absl::StatusOr<std::vector<Endpoint>> endpoints =
      ParseAddressList(flags.service_addr, ResolveWithSystem, &notes);
  if (!endpoints.ok()) return endpoints.status();
  for (const std::string& note : notes) std::fprintf(stderr, "capture: %s\n", note.c_str());
  absl::StatusOr<std::shared_ptr<const ClientCredentials>> credentials =
      ClientCredentials::Load(flags.credentials);
  if (!credentials.ok()) return credentials.status();
  const absl::Status reach = (*credentials)->CheckReach(*endpoints);
  if (!reach.ok()) return reach;
  Targets targets;
  targets.endpoints = *std::move(endpoints);
  targets.dial.connect_timeout = absl::Milliseconds(flags.connect_timeout_ms);
  targets.dial.credentials = *std::move(credentials);
  return targets;
}

}  // namespace jobscope
