// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_COLLECTORS_GATED_SINK_H_
#define TESTS_COLLECTORS_GATED_SINK_H_

#include <set>
#include <string_view>

#include "common/xspace/segment/item_sink.h"

namespace jobscope {

// Passes items to a store, except those of the refused kinds: a store that is full for a while.
class GatedSink : public xspace::ItemSink {
 public:
  explicit GatedSink(xspace::ItemSink* store) : store_(store) {}
  [[nodiscard]] bool Append(xspace::ItemKind kind, std::string_view body) override {
    return refused.count(kind) == 0 && store_->Append(kind, body);
  }
  bool Full() const override { return false; }

  std::set<xspace::ItemKind> refused;

 private:
  xspace::ItemSink* const store_;
};

}  // namespace jobscope

#endif  // TESTS_COLLECTORS_GATED_SINK_H_
