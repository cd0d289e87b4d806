// SPDX-License-Identifier: Apache-2.0
#include "common/options/recording_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "jobscope/v1/options.pb.h"
#include "tensorflow/profiler_options.pb.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

// A value of each option that is not its default.
constexpr std::pair<const char*, const char*> kOther[] = {
    {"host_tracer_level", "3"},  {"device_tracer_level", "0"},   {"python_tracer_level", "2"},
    {"frameworks", "torch,jax"}, {"device_tracer", "framework"}, {"record_shapes", "1"}};

RecordingOptions Other() {
  RecordingOptions options;
  for (const auto& [name, text] : kOther) {
    EXPECT_TRUE(SetOption(kFromFlags, name, text, &options).ok()) << name;
  }
  return options;
}

void ExpectSame(const RecordingOptions& actual, const RecordingOptions& expected) {
  for (const RecordingOption& option : AllRecordingOptions()) {
    EXPECT_EQ(OptionText(actual, option.name), OptionText(expected, option.name)) << option.name;
  }
}

jobscope_capture_options Defaults() {
  jobscope_capture_options options;
  std::memset(&options, 0, sizeof(options));
  options.size = sizeof(options);
  options.host_tracer_level = options.device_tracer_level = options.python_tracer_level = -1;
  return options;
}

std::string ErrorOf(const jobscope_capture_options& options) {
  return std::string(FromC(options).status().message());
}

TEST(RecordingOptionsTest, TheTestKnowsEachOption) {
  ASSERT_EQ(AllRecordingOptions().size(), std::size(kOther));
  const RecordingOptions defaults;
  for (const auto& [name, text] : kOther) {
    EXPECT_NE(OptionText(defaults, name), text) << name;
    EXPECT_EQ(OptionText(Other(), name), text) << name;
  }
}

TEST(RecordingOptionsTest, EachOptionSurvivesTheNativeService) {
  v1::Arm arm;
  ToProto(Other(), &arm);
  const auto read = FromProto(arm);
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(*read, Other());
}

TEST(RecordingOptionsTest, EachOptionSurvivesTheStockService) {
  tensorflow::ProfileOptions stock;
  stock.set_version(1);
  ToProto(Other(), &stock);
  const auto read = FromProto(stock);
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(*read, Other());
  for (const auto& entry : stock.advanced_configuration()) {
    EXPECT_TRUE(IsOptionKey(entry.first)) << entry.first;
  }
  EXPECT_FALSE(IsOptionKey("jobscope_nosuch"));
  EXPECT_FALSE(IsOptionKey("frameworks"));
}

// What it does not know, a stock worker may refuse.
TEST(RecordingOptionsTest, StockWorkersGetNoDefaults) {
  tensorflow::ProfileOptions stock;
  ToProto(RecordingOptions(), &stock);
  EXPECT_TRUE(stock.advanced_configuration().empty());
}

TEST(RecordingOptionsTest, AStockVersionOfZeroIsAllDefaults) {
  tensorflow::ProfileOptions stock;
  stock.set_host_tracer_level(99);
  const auto read = FromProto(stock);
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(*read, RecordingOptions());
}

// Peers of other releases find each option where it always was.
TEST(RecordingOptionsTest, FieldNumbersStay) {
  v1::Arm arm;
  ToProto(Other(), &arm);
  EXPECT_EQ(arm.SerializeAsString(), std::string("\x10\x03\x20\x02\x42\x09torch,jax\x48\x01\x5a\x09"
                                                 "framework"));
  v1::Options effective;
  ToProto(Other(), &effective);
  EXPECT_EQ(effective.SerializeAsString(),
            std::string("\x10\x03\x20\x02\x3a\x09torch,jax\x40\x01\x4a\x09"
                        "framework"));
}

TEST(RecordingOptionsTest, AnOldClientThatSendsNoTextsMeansAuto) {
  v1::Arm arm;
  arm.set_host_tracer_level(1);
  const auto read = FromProto(arm);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->host_tracer_level, 1);
  EXPECT_EQ(read->frameworks.text(), "auto");
  EXPECT_EQ(read->device_tracer, DeviceTracer::kAuto);
}

TEST(RecordingOptionsTest, ErrorsNameTheirSource) {
  RecordingOptions options;
  EXPECT_EQ(SetOption(kFromFlags, "host_tracer_level", "4", &options).message(),
            "--host_tracer_level=4 is out of range; give 0 to 3");
  EXPECT_EQ(SetOption(kFromFlags, "host_tracer_level", "much", &options).message(),
            "--host_tracer_level=much is out of range; give 0 to 3");
  EXPECT_EQ(SetOption(kFromFlags, "record_shapes", "many", &options).message(),
            "--record_shapes=many is out of range; give 0 to 1");
  EXPECT_EQ(SetOption(kFromFlags, "nosuch", "4", &options).message(), "--nosuch is not an option");
  ExpectSame(options, RecordingOptions());

  v1::Arm arm;
  arm.set_host_tracer_level(UINT32_MAX);
  EXPECT_EQ(FromProto(arm).status().message(),
            "arm.host_tracer_level = 4294967295 is out of range: 0 to 3");
  tensorflow::ProfileOptions stock;
  stock.set_version(1);
  stock.set_device_tracer_level(2);
  EXPECT_EQ(FromProto(stock).status().message(),
            "opts.device_tracer_level = 2 is out of range: 0 to 1");
  stock.set_version(0);
  (*stock.mutable_advanced_configuration())["jobscope_frameworks"].set_string_value("Torch");
  EXPECT_THAT(std::string(FromProto(stock).status().message()),
              HasSubstr("opts.advanced_configuration[\"jobscope_frameworks\"]: \"Torch\" is not"));
}

TEST(RecordingOptionsTest, FromC) {
  jobscope_capture_options given = Defaults();
  ExpectSame(*FromC(given), RecordingOptions());
  given.host_tracer_level = 3;
  given.device_tracer_level = 0;
  given.python_tracer_level = 2;
  given.frameworks = "torch,jax";
  given.device_tracer = "framework";
  given.record_shapes = 1;
  ExpectSame(*FromC(given), Other());
  given.host_tracer_level = 7;
  EXPECT_EQ(ErrorOf(given), "options.host_tracer_level = 7 is out of range: 0 to 3");
  given.host_tracer_level = 0;
  const std::string endless(5000, 'x');
  given.frameworks = endless.c_str();
  EXPECT_EQ(ErrorOf(given), "options.frameworks is longer than 1024 bytes");
}

TEST(RecordingOptionsTest, FromCByName) {
  std::string text;
  for (const auto& [name, value] : kOther) text += std::string(name) + "=" + value + "\n";
  jobscope_capture_options given = Defaults();
  given.device_tracer_level = 99;  // not looked at
  given.by_name = text.c_str();
  ExpectSame(*FromC(given), Other());
  given.by_name = "host_tracer_level=9";
  EXPECT_EQ(ErrorOf(given), "options.host_tracer_level = 9 is out of range: 0 to 3");
  given.by_name = "nosuch=1";
  EXPECT_EQ(ErrorOf(given), "options.nosuch is not an option");
  given.by_name = "host_tracer_level";
  EXPECT_EQ(ErrorOf(given), "options.host_tracer_level =  is out of range: 0 to 3");
  given.by_name = "";
  ExpectSame(*FromC(given), RecordingOptions());
  const std::string endless(5000, 'x');
  given.by_name = endless.c_str();
  EXPECT_EQ(ErrorOf(given), "options.by_name is longer than 4096 bytes");
}

}  // namespace
}  // namespace jobscope
