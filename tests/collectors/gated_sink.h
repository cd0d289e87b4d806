// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_COLLECTORS_GATED_SINK_H_
#define TESTS_COLLECTORS_GATED_SINK_H_

#include <cstdint>
#include <set>
#include <string_view>

#include "common/xspace/segment/item_sink.h"

namespace jobscope {

// Passes items to a store, except those of the refused kinds: a store that is full for a while.
class GatedSink : public xspace::ItemSink {
 public:
  explicit GatedSink(xspace::ItemSink* store) : store_(store) {}
  [[nodiscard]] bool Append(xspace::ItemKind kind, std::string_view body) override {
    if (refused.count(kind) != 0 && refusals > 0) {
      --refusals;
      return false;
    }
    return store_->Append(kind, body);
  }
  bool Full() const override { return false; }

  std::set<xspace::ItemKind> refused;
  uint64_t refusals = UINT64_MAX;  // after so many, all kinds pass

 private:
  xspace::ItemSink* const store_;
};

}  // namespace jobscope

#endif  // TESTS_COLLECTORS_GATED_SINK_H_
