// SPDX-License-Identifier: Apache-2.0
//
// Keras 3's steps without code: each training batch ends one.
#ifndef COLLECTORS_FRAMEWORK_KERAS_STEPS_H_
#define COLLECTORS_FRAMEWORK_KERAS_STEPS_H_

namespace jobscope::framework::keras {

// Looks, on the calling thread, a few times within half a minute, ever more seldom, for the
// process's Python, and has it tell of Keras' import, or finds it imported. Returns when that is
// done. Takes the GIL: for a thread of its own. Does nothing with JOBSCOPE_INFER_STEPS=0.
void LookForAWhile();

}  // namespace jobscope::framework::keras

#endif  // COLLECTORS_FRAMEWORK_KERAS_STEPS_H_
