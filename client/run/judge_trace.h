// SPDX-License-Identifier: Apache-2.0
//
// Converts the summary in a trace of one of our workers to an account and an outcome, whether the
// trace came in one answer or was streamed.
#ifndef CLIENT_RUN_JUDGE_TRACE_H_
#define CLIENT_RUN_JUDGE_TRACE_H_

#include <cstdint>
#include <string>

#include "client/worker/worker_outcome.h"
#include "common/run/manifest.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope {

// Fills `account` from the summary, and warns if it does not match `events` (those in the files,
// which take precedence). Returns ok, truncated or empty.
WorkerOutcome JudgeOwnTrace(const v1::Summary& summary, uint64_t events, ManifestWorker* account);

// Returns "cuda failed: no privilege; system degraded: ...": the collectors that are not on, if
// they give a reason.
std::string CollectorReasons(const ManifestWorker& account);

// Joins both texts with "; " if neither is empty.
std::string WithReason(std::string text, const std::string& more);

}  // namespace jobscope

#endif  // CLIENT_RUN_JUDGE_TRACE_H_
