// SPDX-License-Identifier: Apache-2.0
//
// Infers the steps of Keras 3: each training batch ends one.
#ifndef COLLECTORS_FRAMEWORK_KERAS_STEPS_H_
#define COLLECTORS_FRAMEWORK_KERAS_STEPS_H_

namespace jobscope::framework::keras {

// Makes Python report Keras' import, or finds it imported. Does nothing without Python, and with
// JOBSCOPE_INFER_STEPS=0. Once per process. Acquires the GIL: call it on a thread that may wait.
void WatchImports();

}  // namespace jobscope::framework::keras

#endif  // COLLECTORS_FRAMEWORK_KERAS_STEPS_H_
