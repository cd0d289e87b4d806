// SPDX-License-Identifier: Apache-2.0
//
// Stands for JAX's plugin for CUDA, of which the name is all that counts here.
extern "C" int GetPjrtApi() { return 0; }
