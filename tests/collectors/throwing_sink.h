// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_COLLECTORS_THROWING_SINK_H_
#define TESTS_COLLECTORS_THROWING_SINK_H_

#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "common/xspace/segment/item_sink.h"

namespace jobscope {

// Throws once, as if memory had run out: at the first item that contains a text.
class ThrowingSink : public xspace::ItemSink {
 public:
  ThrowingSink(xspace::ItemSink* sink, std::string text) : sink_(sink), text_(std::move(text)) {}
  bool Append(xspace::ItemKind kind, std::string_view bytes) override {
    if (bytes.find(text_) != std::string_view::npos && !std::exchange(thrown_, true)) {
      throw std::bad_alloc();
    }
    return sink_->Append(kind, bytes);
  }
  bool Full() const override { return sink_->Full(); }

 private:
  xspace::ItemSink* const sink_;
  const std::string text_;
  bool thrown_ = false;
};

}  // namespace jobscope

#endif  // TESTS_COLLECTORS_THROWING_SINK_H_
