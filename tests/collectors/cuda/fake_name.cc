// SPDX-License-Identifier: Apache-2.0
//
// A library of which the collector looks at the name only.
extern "C" __attribute__((visibility("default"))) int fake_name() { return 0; }
