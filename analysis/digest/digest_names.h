// SPDX-License-Identifier: Apache-2.0
//
// Encodes the names of a digest: scopes, operators and kernels, with their times.
#ifndef ANALYSIS_DIGEST_DIGEST_NAMES_H_
#define ANALYSIS_DIGEST_DIGEST_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/steps/intervals.h"
#include "analysis/trace/host_line.h"
#include "analysis/trace/name_table.h"
#include "analysis/trace/trace_reader.h"
#include "jobscope/v1/digest.pb.h"

namespace jobscope::analysis {

// Adds the time that helper threads spent in steps to the names. The time is an estimate: each name
// gets the part of its time that is the threads' part in `accounts`. Time in which several helpers
// work counts once.
void AddStepTimesOfHelpers(const std::vector<Interval>& accounts,
                           const std::vector<HostLine*>& helpers, NameTable* operators);

// Estimates each kernel's part of the time of its class in `accounts`. It differs from the kernel's
// own time: a capture has kernels before its first and after its last whole step, and the class
// counts the time only once in which kernels run at the same time on several streams or devices.
void SetStepTimesOfKernels(const std::vector<Interval>& accounts, WorkerTrace* trace);

// Fills the digest's operators with the largest ones. Returns for each index of the table its new
// index plus 1, or 0.
std::vector<uint32_t> FillOperators(const NameTable& table, v1::Digest* digest);
void FillKernels(const NameTable& table, v1::Digest* digest);

// Returns how many kernels the digest left out, at most. nullopt: it has as many as fit, and an
// earlier revision wrote it, which did not count the others.
std::optional<uint64_t> KernelsLeftOut(const v1::Digest& digest);

// Returns the largest step_self_ns or input_ns that an operator, or a kernel, can have had that the
// digest left out. 0: it left none out.
uint64_t LargestLeftOutNs(const v1::Digest& digest, bool kernels);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_DIGEST_DIGEST_NAMES_H_
