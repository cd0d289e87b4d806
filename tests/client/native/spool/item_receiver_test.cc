// SPDX-License-Identifier: Apache-2.0
//
// Tests a receiver when the disk fills, and when a worker sends without end. This program's own
// statvfs replaces the C library's.
#include "client/native/spool/item_receiver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/client/fake_items.h"
#include "tests/temporary_directory.h"

namespace {

std::atomic<uint64_t> g_free_bytes{0};

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc has reserved ones.
extern "C" int statvfs(const char* /*path*/, struct statvfs* system) noexcept {
  *system = {};
  system->f_frsize = 1;
  system->f_bavail = g_free_bytes;
  return 0;
}

namespace jobscope {
namespace {

using ::testing::HasSubstr;

std::string EventsOf(uint64_t number, size_t bytes) {
  // Of plane 1, and a field that is skipped.
  std::string body = "\x08\x01";
  protozero::pbf_writer(body).add_bytes(15, std::string(bytes, 'x'));
  return ItemsBytes({{number, xspace::ItemKind::kEvents, body}});
}

TEST(ItemReceiver, ManySmallSpoolsFillADiskTogether) {
  const TemporaryDirectory directory;
  ReceiveLimits limits;
  limits.all_disk_check_bytes = 100'000;
  g_free_bytes = 1 << 30;
  std::vector<std::unique_ptr<ItemReceiver>> receivers(20);
  for (auto& receiver : receivers) {
    receiver = std::make_unique<ItemReceiver>(directory.path(), 0, limits);
    ASSERT_TRUE(receiver->Take(EventsOf(1, 10'000)).ok());
  }
  g_free_bytes = 100'000;  // each becomes a trace of its size
  for (uint64_t number = 2; number < 30; ++number) {
    for (auto& receiver : receivers) {
      ASSERT_TRUE(receiver->Take(EventsOf(number, 10'000)).ok());
    }
  }
  for (auto& receiver : receivers) {
    EXPECT_THAT(receiver->received().limit_reached, HasSubstr("has no room for a longer trace"));
  }
}

// As a worker sends that records for an hour: 63 bytes each.
TEST(ItemReceiver, AMillionNamesAreTaken) {
  const TemporaryDirectory directory;
  g_free_bytes = 1 << 30;
  ItemReceiver receiver(directory.path(), 0);
  const std::string body(55, 'n');
  uint64_t number = 0;
  while (number < 1'000'000) {
    std::vector<FakeItem> items;
    for (int i = 0; i < 1'000; ++i) items.push_back({++number, xspace::ItemKind::kNames, body});
    const absl::Status status = receiver.Take(ItemsBytes(items));
    ASSERT_TRUE(status.ok()) << number << ": " << status;
  }
  EXPECT_EQ(receiver.received().last_item, number);
}

TEST(ItemReceiver, AnItemThatBeginsAgainAndAgainIsCutOff) {
  const TemporaryDirectory directory;
  ReceiveLimits limits;
  limits.left_out_bytes = 1'000'000;
  for (const bool whole_between : {false, true}) {
    ItemReceiver receiver(directory.path(), 0, limits);
    const std::string data(50'000, 'x');
    absl::Status status;
    uint64_t number = 1;
    for (int i = 0; i < 100 && status.ok(); ++i) {
      status = receiver.TakeChunk({number, xspace::ItemKind::kRawPlane, 100'000, 0, data});
      if (!status.ok() || !whole_between) continue;
      // Of a kind that is skipped.
      status = receiver.Take(ItemsBytes({{number++, static_cast<xspace::ItemKind>(63), ""}}));
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << whole_between;
    EXPECT_LT(receiver.received().bytes, 2'000'000u);
  }
}

}  // namespace
}  // namespace jobscope
