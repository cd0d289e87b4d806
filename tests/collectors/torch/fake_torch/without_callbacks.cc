// SPDX-License-Identifier: Apache-2.0
//
// A libtorch_cpu.so that lacks at::addGlobalCallback.
extern "C" __attribute__((visibility("default"))) int fake_torch_without_callbacks() { return 0; }
