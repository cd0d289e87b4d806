// SPDX-License-Identifier: Apache-2.0
//
// Reads the items of a store, and those of a message, for tests.
#ifndef TESTS_SERVER_NATIVE_ITEMS_ITEM_MESSAGES_H_
#define TESTS_SERVER_NATIVE_ITEMS_ITEM_MESSAGES_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <vector>

#include "common/xspace/segment/store.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/rpc/raw_message.h"

namespace jobscope {

inline std::vector<xspace::HeldItem> Read(const xspace::Store& store) {
  return store.Read(1, std::numeric_limits<size_t>::max());
}

inline v1::CaptureResponse Parse(const grpc::ByteBuffer& bytes) {
  v1::CaptureResponse response;
  EXPECT_TRUE(ParseRequest(bytes, &response).ok());
  return response;
}

}  // namespace jobscope

#endif  // TESTS_SERVER_NATIVE_ITEMS_ITEM_MESSAGES_H_
