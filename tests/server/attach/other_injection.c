// SPDX-License-Identifier: Apache-2.0
//
// The entry point of another tool's injection library: preloaded before ours, it stands in for
// ours.
__attribute__((visibility("default"))) int InitializeInjection(void);
int InitializeInjection(void) { return 1; }
