// SPDX-License-Identifier: Apache-2.0
//
// Describes what a trace lacks.
#ifndef COMMON_XSPACE_ASSEMBLE_LOSS_TEXT_H_
#define COMMON_XSPACE_ASSEMBLE_LOSS_TEXT_H_

#include <string>
#include <vector>

#include "common/xspace/assemble/item_index.h"

namespace jobscope::xspace {

// Returns the texts of XSpace.warnings: one per cause of loss with numbers and a remedy, then the
// summary's warnings, then an early end, then items that could not be used.
std::vector<std::string> Warnings(const ItemIndex& index);

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_LOSS_TEXT_H_
