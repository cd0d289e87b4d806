// SPDX-License-Identifier: Apache-2.0
//
// Provides the entry point of another tool's injection library. Preloaded before ours, it replaces
// ours.
__attribute__((visibility("default"))) int InitializeInjection(void);
int InitializeInjection(void) { return 1; }
