// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_COMMON_XSPACE_ASSEMBLE_ASSEMBLED_SESSION_H_
#define TESTS_COMMON_XSPACE_ASSEMBLE_ASSEMBLED_SESSION_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"
#include "common/xspace/segment/store.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope::xspace {

// The store of a session with a host plane.
class AssembledSessionTest : public ::testing::Test {
 protected:
  AssembledSessionTest()
      : store_(size_t{16} << 20), names_(&store_), host_(names_.Plane("/host:CPU", 3)) {}

  // An event called like its id in the name table of the host plane.
  void Add(SegmentBuilder* builder, std::string_view name, int64_t start_ps, int64_t duration_ps) {
    SegmentEvent event;
    event.start_ps = start_ps;
    event.duration_ps = duration_ps;
    event.metadata_id = names_.Event(host_, name);
    builder->Add(event);
  }

  void AddSummary(const v1::Summary& summary) {
    ASSERT_TRUE(store_.Append(ItemKind::kSummary, summary.SerializeAsString()));
  }

  Store store_;
  Names names_;
  const PlaneKey host_;
};

}  // namespace jobscope::xspace

#endif  // TESTS_COMMON_XSPACE_ASSEMBLE_ASSEMBLED_SESSION_H_
