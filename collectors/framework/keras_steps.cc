// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/keras_steps.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectors/framework/keras_steps.py.h"
#include "collectors/inferred/inferred_steps.h"
#include "collectors/python/bridge/interpreter.h"
#include "collectors/python/bridge/script.h"
#include "common/log/log.h"

namespace jobscope::framework::keras {
namespace {

constexpr char kStepName[] = "Keras batch";

uint64_t IdOf(const std::vector<python::Value>& arguments) {
  const auto* const id = arguments.empty() ? nullptr : std::get_if<int64_t>(arguments.data());
  return id == nullptr ? 0 : static_cast<uint64_t>(*id);
}

}  // namespace

void WatchImports() {
  if (!InfersSteps()) return;
  const auto interpreter = python::Interpreter::Find();
  if (!interpreter.ok()) return;
  const python::NativeFunction ended = [](const std::vector<python::Value>& arguments) {
    NoteStepEnd(IdOf(arguments), kStepName);
  };
  const python::NativeFunction forgotten = [](const std::vector<python::Value>& arguments) {
    ForgetStepBegin(IdOf(arguments));
  };
  auto loaded = python::Script::Load(*interpreter, "jobscope_keras_steps", python::kKerasStepsPy,
                                     {{"_step_ended", ended}, {"_step_forgotten", forgotten}});
  auto status = loaded.status();
  if (loaded.ok()) {
    // Never destroyed: Keras keeps references to its functions.
    auto* const script = new std::unique_ptr<python::Script>(*std::move(loaded));
    status = (*script)->Call("look").status();
  }
  if (!status.ok()) {
    Log(LogLevel::kInfo, absl::StrCat("no steps from Keras: ", std::string(status.message())));
  }
}

}  // namespace jobscope::framework::keras
