// SPDX-License-Identifier: Apache-2.0
//
// Keras 3's steps without code: each training batch ends one.
#ifndef COLLECTORS_FRAMEWORK_KERAS_STEPS_H_
#define COLLECTORS_FRAMEWORK_KERAS_STEPS_H_

namespace jobscope::framework::keras {

// Has the process's Python tell of Keras' import, or finds it imported; does nothing where there is
// no Python, and with JOBSCOPE_INFER_STEPS=0. Once per process. Takes the GIL: for a thread that
// may wait.
void WatchImports();

}  // namespace jobscope::framework::keras

#endif  // COLLECTORS_FRAMEWORK_KERAS_STEPS_H_
