/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that calls the program while it is loaded. */
void OnPluginLoaded(void);

__attribute__((constructor)) static void Load(void) { OnPluginLoaded(); }
