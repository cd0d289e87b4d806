// SPDX-License-Identifier: Apache-2.0
//
// Creates the collectors that drive the frameworks' own profilers.
#ifndef COLLECTORS_FRAMEWORK_FRAMEWORK_COLLECTORS_H_
#define COLLECTORS_FRAMEWORK_FRAMEWORK_COLLECTORS_H_

#include <memory>

#include "collectors/collector.h"
#include "collectors/framework/profiler_collector.h"

namespace jobscope {

// Makes the collector "jax": what jaxlib records about itself, including compiled programs.
std::unique_ptr<Collector> MakeJaxCollector(FrameworkEnvironment environment);

// Makes the collector "tensorflow": what TensorFlow records about itself, including tf.data.
std::unique_ptr<Collector> MakeTensorflowCollector(FrameworkEnvironment environment);

}  // namespace jobscope

#endif  // COLLECTORS_FRAMEWORK_FRAMEWORK_COLLECTORS_H_
