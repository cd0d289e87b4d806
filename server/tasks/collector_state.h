// SPDX-License-Identifier: Apache-2.0
//
// Describes the states of collectors for the client.
#ifndef SERVER_TASKS_COLLECTOR_STATE_H_
#define SERVER_TASKS_COLLECTOR_STATE_H_

#include <string>
#include <string_view>

#include "collectors/collector.h"
#include "jobscope/v1/item.pb.h"
#include "server/tasks/collector_task.h"

namespace jobscope {

// Makes text from a collector valid UTF-8: it may have any source (a thread's name, a framework's
// event), and one invalid byte would make the client's parser reject the whole message, and with it
// the trace.
std::string CleanText(std::string_view text);

v1::CollectorState CollectorStateOf(std::string_view name, CollectorState state,
                                    std::string_view reason);

// The outcome of a task: what its collector reported, or why it could not. `report` is null if it
// has not.
v1::CollectorState StateOf(const CollectorTask& task, const CollectorReport* report);

// State of a task whose Arm has returned, or has missed its deadline.
v1::CollectorState StateAfterArm(const CollectorTask& task);

}  // namespace jobscope

#endif  // SERVER_TASKS_COLLECTOR_STATE_H_
