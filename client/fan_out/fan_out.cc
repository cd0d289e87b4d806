// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out/fan_out.h"

#include <utility>

#include "client/fan_out/fan_out_state.h"

namespace jobscope {

FanOut::FanOut(std::vector<Endpoint> endpoints, std::vector<std::string> stems,
               FanOutOptions options, WorkerFactory factory, DeliveryWriter writer,
               Progress* progress)
    : state_(std::make_unique<FanOutState>(std::move(endpoints), std::move(stems),
                                           std::move(options), std::move(factory),
                                           std::move(writer), progress)) {}

FanOut::~FanOut() = default;

std::vector<WorkerResult> FanOut::Run() { return state_->Run(); }

void FanOut::Interrupt() { state_->Interrupt(); }

const StartFacts& FanOut::facts() const { return state_->facts(); }

}  // namespace jobscope
