// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/kernel_names.h"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/text/foreign_text.h"
#include "common/xspace/wire/absl_view.h"

namespace jobscope::cuda {
namespace {

using xspace::AbslView;

constexpr size_t kMaxSymbolBytes = 64 * 1024;
// Bounds demangling, whose cost can grow faster than its input.
constexpr size_t kMaxDemangledSymbol = 16 * 1024;

constexpr std::string_view kVoid = "void ";
constexpr std::string_view kAnonymous = "(anonymous namespace)";

}  // namespace

std::string KernelName(std::string_view symbol) {
  std::string name(symbol);
  if (symbol.size() > 2 && symbol.size() <= kMaxDemangledSymbol && symbol[0] == '_' &&
      symbol[1] == 'Z') {
    int status = 0;
    char* const demangled = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
    if (status == 0 && demangled != nullptr) name = demangled;
    std::free(demangled);
  }
  if (name.compare(0, kVoid.size(), kVoid) == 0) name.erase(0, kVoid.size());
  if (name.size() > kMaxNameBytes) name = CutText(name, kMaxNameBytes - strlen("..."));
  return name.empty() ? "kernel" : name;
}

std::string ShortKernelName(std::string_view name) {
  std::string text(name);
  for (size_t at = text.find(kAnonymous); at != std::string::npos; at = text.find(kAnonymous)) {
    text.replace(at, kAnonymous.size(), "anonymous");
  }
  const size_t end = text.find_first_of("<(");
  if (end != std::string::npos && end > 0) text.resize(end);
  return text;
}

uint32_t KernelNames::Add(Entry entry) {
  bytes_ += sizeof(entry) + entry.name.size() + entry.launch.size();
  names_.push_back(std::move(entry));
  return static_cast<uint32_t>(names_.size() - 1);
}

uint32_t KernelNames::Find(const char* symbol) {
  const std::string_view key = symbol == nullptr
                                   ? std::string_view()
                                   : std::string_view(symbol, strnlen(symbol, kMaxSymbolBytes));
  const auto found = by_symbol_.find(AbslView(key));
  if (found != by_symbol_.end()) return found->second;
  if (bytes_ >= kMaxBytes) {
    if (!others_.has_value()) others_ = Add({"other kernels", "Launch other kernels"});
    ++unnamed_;
    return *others_;
  }
  Entry entry;
  entry.name = KernelName(key);
  entry.launch = "Launch " + ShortKernelName(entry.name);
  const uint32_t index = Add(std::move(entry));
  bytes_ += sizeof(std::string) + key.size();
  by_symbol_.emplace(std::string(key), index);
  return index;
}

}  // namespace jobscope::cuda
