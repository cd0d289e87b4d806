// SPDX-License-Identifier: Apache-2.0
#ifndef COLLECTORS_FRAMEWORK_JAX_COLLECTOR_H_
#define COLLECTORS_FRAMEWORK_JAX_COLLECTOR_H_

#include <memory>

#include "collectors/collector.h"
#include "collectors/framework/foreign_xspace_collector.h"

namespace jobscope {

// Makes the collector "jax": what jaxlib records about itself, including compiled programs.
std::unique_ptr<Collector> MakeJaxCollector(FrameworkEnvironment environment);

}  // namespace jobscope

#endif  // COLLECTORS_FRAMEWORK_JAX_COLLECTOR_H_
