// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/bridge/interpreter.h"

#include <string>

#include "collectors/python/bridge/api.h"
#include "collectors/python/bridge/gil.h"

namespace jobscope::python {

absl::StatusOr<const Interpreter*> Interpreter::Find() {
  const absl::StatusOr<const Api*> api = FindApi();
  if (!api.ok()) return api.status();
  if (absl::Status alive = CheckAlive(**api); !alive.ok()) return alive;
  static const Interpreter* const interpreter = new Interpreter(*api);
  return interpreter;
}

std::string Interpreter::version() const { return api_->version; }

bool Interpreter::HasModule(std::string_view name) const {
  const Api& api = *api_;
  const std::string wanted(name);
  bool has = false;
  const absl::Status status = WithGil(api, GilUse::kLookUp, [&] {
    Object* const module = api.Dict_GetItemString(api.Import_GetModuleDict(), wanted.c_str());
    if (module == nullptr || module == api.none) return;
    // While another thread imports it, the module is incomplete.
    const Ref spec(api, api.Object_GetAttrString(module, "__spec__"));
    const Ref running(api, spec ? api.Object_GetAttrString(spec.get(), "_initializing") : nullptr);
    has = !running || api.Object_IsTrue(running.get()) != 1;
    api.Err_Clear();
  });
  return status.ok() && has;
}

}  // namespace jobscope::python
