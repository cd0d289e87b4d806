// SPDX-License-Identifier: Apache-2.0
//
// A libtorch_cuda.so: it counts by its name.
extern "C" __attribute__((visibility("default"))) int fake_torch_cuda() { return 0; }
