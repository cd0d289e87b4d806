// SPDX-License-Identifier: Apache-2.0
//
// Implements the verb `check`.
#ifndef CLIENT_CLI_SURVEY_CHECK_VERB_H_
#define CLIENT_CLI_SURVEY_CHECK_VERB_H_

#include "client/cli/base/worker_verb.h"

namespace jobscope {

// Calls Describe on all workers. The exit code says whether all, some or none are reachable.
extern const WorkerVerb kCheckVerb;

}  // namespace jobscope

#endif  // CLIENT_CLI_SURVEY_CHECK_VERB_H_
