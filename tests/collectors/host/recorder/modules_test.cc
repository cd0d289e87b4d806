// SPDX-License-Identifier: Apache-2.0
//
// Several libraries and the executable, one recorder; libraries that are unloaded and loaded again.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>

#include "jobscope/trace.h"
#include "tests/collectors/host/recorder/recorded.h"

extern "C" {
void linked_record(const char* text);
const void* linked_mask();
}

namespace jobscope::recorder_test {
namespace {

using RecordFunction = void (*)(const char*);
using MaskFunction = const void* (*)();

const struct jobscope_trace_reader* Reader() { return jobscope_trace_reader(); }

class Module {
 public:
  Module(const char* path, const std::string& name) : path_(path) {
    handle_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle_, nullptr) << dlerror();
    if (handle_ == nullptr) return;
    record = reinterpret_cast<RecordFunction>(dlsym(handle_, (name + "_record").c_str()));
    mask = reinterpret_cast<MaskFunction>(dlsym(handle_, (name + "_mask").c_str()));
  }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module() { Unload(); }
  void Unload() {
    if (handle_ != nullptr) dlclose(handle_);
    handle_ = nullptr;
  }
  bool IsLoaded() const {
    void* handle = dlopen(path_, RTLD_NOW | RTLD_NOLOAD);
    if (handle != nullptr) dlclose(handle);
    return handle != nullptr;
  }
  RecordFunction record = nullptr;
  MaskFunction mask = nullptr;

 private:
  const char* path_;
  void* handle_ = nullptr;
};

std::map<std::string, uint32_t> SitesOf(const std::vector<Event>& events) {
  std::map<std::string, uint32_t> sites;
  for (const Event& event : events) sites[event.name] = event.site;
  return sites;
}

TEST(Modules, OneRecorderForAll) {
  Module a(MODULE_A, "module_a");
  Module b(MODULE_B, "module_b");
  const void* mask = jobscope_trace_writer()->mask;
  EXPECT_EQ(linked_mask(), mask);
  EXPECT_EQ(a.mask(), mask);
  EXPECT_EQ(b.mask(), mask);
  const auto in_linked = SitesOf(Record(kAllBits, [] { linked_record("x"); }));
  const auto in_a = SitesOf(Record(kAllBits, [&] { a.record("x"); }));
  const auto in_b = SitesOf(Record(kAllBits, [&] { b.record("x"); }));
  EXPECT_EQ(in_linked.size(), 4u);
  // The same (name, file, line), so the same sites, whichever library they are in.
  EXPECT_EQ(in_a, in_linked);
  EXPECT_EQ(in_b, in_linked);
}

TEST(Modules, ALibraryMayBeUnloadedWithItsRecordsInTheRings) {
  std::map<std::string, uint32_t> first;
  for (int i = 0; i < 3; ++i) {
    Module a(MODULE_A, "module_a");
    uint64_t serial = 0;
    Recording recording(kAllBits);
    std::thread([&] {
      serial = MySerial();
      a.record("gone with the library?");
      a.Unload();
    }).join();
    // Really gone: nothing of ours pins it.
    ASSERT_FALSE(a.IsLoaded());
    jobscope_cursor cursor = {0, 0};
    const auto events = ReadAll(serial, &cursor).events;
    const auto sites = SitesOf(events);
    EXPECT_EQ(sites.count("in a module"), 1u);
    EXPECT_EQ(sites.count("static destructor"), 1u);
    for (const Event& event : events) {
      if (event.name != "in a module") continue;
      ASSERT_EQ(event.args.size(), 1u);
      EXPECT_EQ(event.args[0].text, "gone with the library?");
      EXPECT_EQ(event.keys[0], "text");
    }
    jobscope_site_info info;
    ASSERT_EQ(Reader()->site(sites.at("in a module"), &info), 0);
    EXPECT_THAT(info.file, testing::EndsWith("module.cc"));
    // Loaded again, it has its old ids.
    if (i == 0) first = sites;
    EXPECT_EQ(sites, first);
  }
}

TEST(Modules, StaticConstructorsRecordWhileTheLibraryIsLoaded) {
  const auto events = Record(kAllBits, [] { Module b(MODULE_B, "module_b"); });
  const auto sites = SitesOf(events);
  EXPECT_EQ(sites.count("static constructor"), 1u);
  EXPECT_EQ(sites.count("static destructor"), 1u);
}

TEST(Modules, TheRecorderItselfStays) {
  void* handle = dlopen(JOBSCOPE_TRACE_SONAME, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(handle, nullptr) << "the SONAME in the header is not the library's";
  for (int i = 0; i < 10; ++i) dlclose(handle);
  EXPECT_EQ(Record(kAllBits, [] { JOBSCOPE_SCOPE("still here"); }).size(), 1u);
}

// As a program without it would: the library comes by dlopen, late, with its TLS.
TEST(Modules, FoundByDlsym) {
  void* handle = dlopen(JOBSCOPE_TRACE_SONAME, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(dlsym(handle, "jobscope_trace_reader"),
            reinterpret_cast<void*>(&jobscope_trace_reader));
  dlclose(handle);
}

}  // namespace
}  // namespace jobscope::recorder_test
