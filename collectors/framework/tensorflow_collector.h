// SPDX-License-Identifier: Apache-2.0
#ifndef COLLECTORS_FRAMEWORK_TENSORFLOW_COLLECTOR_H_
#define COLLECTORS_FRAMEWORK_TENSORFLOW_COLLECTOR_H_

#include <memory>

#include "collectors/collector.h"
#include "collectors/framework/foreign_xspace_collector.h"

namespace jobscope {

// Makes the collector "tensorflow": what TensorFlow records about itself, including tf.data.
std::unique_ptr<Collector> MakeTensorflowCollector(FrameworkEnvironment environment);

}  // namespace jobscope

#endif  // COLLECTORS_FRAMEWORK_TENSORFLOW_COLLECTOR_H_
