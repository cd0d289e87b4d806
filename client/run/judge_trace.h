// SPDX-License-Identifier: Apache-2.0
//
// What a trace of a worker of ours says about itself, as an account and a verdict: the same for one
// that came in an answer and for one that was streamed.
#ifndef CLIENT_RUN_JUDGE_TRACE_H_
#define CLIENT_RUN_JUDGE_TRACE_H_

#include <cstdint>
#include <string>

#include "client/worker/outcome.h"
#include "common/run/manifest.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope {

// Fills `account` from the summary, warns where it does not fit `events` (those in the files, which
// win), and says ok, truncated or empty.
Verdict JudgeOwnTrace(const v1::Summary& summary, uint64_t events, ManifestWorker* account);

// "cuda failed: no privilege; system degraded: ...": of collectors that are not on, and say why.
std::string CollectorReasons(const ManifestWorker& account);

// Both texts, "; " between them where neither is empty.
std::string WithReason(std::string text, const std::string& more);

}  // namespace jobscope

#endif  // CLIENT_RUN_JUDGE_TRACE_H_
