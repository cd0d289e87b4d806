// SPDX-License-Identifier: Apache-2.0
#include "collectors/torch/torch_collectives.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "collectors/torch/torch_exceptions.h"

namespace jobscope::framework::torch {
namespace {

// Backends whose works are named "<backend>:<collective>".
constexpr std::array<std::string_view, 6> kBackends = {
    "gloo:", "nccl:", "xccl:", "ucc:", "mpi:", "hccl:"};
// Backends that keep their parameters in thread-local storage while they create a work.
constexpr std::array<std::string_view, 2> kWithParameters = {"nccl:", "xccl:"};

template <size_t kCount>
bool StartsWithAny(std::string_view name, const std::array<std::string_view, kCount>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [name](std::string_view prefix) {
    return name.substr(0, prefix.size()) == prefix;
  });
}

struct NamedType {
  std::string_view name;
  ElementType type;
};
constexpr std::array<NamedType, 33> kTypes = {{
    {"float", {"float32", 4}},
    {"Float", {"float32", 4}},
    {"double", {"float64", 8}},
    {"Double", {"float64", 8}},
    {"c10::Half", {"float16", 2}},
    {"Half", {"float16", 2}},
    {"c10::BFloat16", {"bfloat16", 2}},
    {"BFloat16", {"bfloat16", 2}},
    {"long", {"int64", 8}},
    {"long int", {"int64", 8}},
    {"Long", {"int64", 8}},
    {"int", {"int32", 4}},
    {"Int", {"int32", 4}},
    {"short", {"int16", 2}},
    {"short int", {"int16", 2}},
    {"Short", {"int16", 2}},
    {"signed char", {"int8", 1}},
    {"Char", {"int8", 1}},
    {"unsigned char", {"uint8", 1}},
    {"Byte", {"uint8", 1}},
    {"bool", {"bool", 1}},
    {"Bool", {"bool", 1}},
    {"c10::complex<float>", {"complex64", 8}},
    {"ComplexFloat", {"complex64", 8}},
    {"c10::complex<double>", {"complex128", 16}},
    {"ComplexDouble", {"complex128", 16}},
    {"c10::Float8_e4m3fn", {"float8_e4m3fn", 1}},
    {"Float8_e4m3fn", {"float8_e4m3fn", 1}},
    {"c10::Float8_e5m2", {"float8_e5m2", 1}},
    {"Float8_e5m2", {"float8_e5m2", 1}},
    {"unsigned short", {"uint16", 2}},
    {"unsigned int", {"uint32", 4}},
    {"unsigned long", {"uint64", 8}},
}};

int64_t Elements(const std::vector<int64_t>& sizes) {
  int64_t elements = 1;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(elements, size, &elements)) return 0;
  }
  return elements;
}

// Reads the tensors with which the work is created.
void ReadTensors(const Api& api, const void* record_function, CollectiveFacts* facts) {
  if (api.input_sizes == nullptr || api.input_types == nullptr) return;
  const Sizes sizes = api.input_sizes(record_function, /*flatten_lists=*/false);
  const std::vector<std::string> types = api.input_types(record_function);
  if (sizes.size() != types.size()) return;
  int64_t bytes = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const ElementType type = ElementTypeOf(types[i]);
    if (type.bytes == 0) return;
    bytes += Elements(sizes[i]) * type.bytes;
    const bool is_same = i == 0 || facts->dtype == type.dtype;
    facts->dtype = is_same ? std::string(type.dtype) : "";
  }
  if (!sizes.empty()) facts->bytes = bytes;
}

// Removes the quotes that PyTorch writes around text.
std::string_view Unquoted(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    return text.substr(1, text.size() - 2);
  }
  return text;
}

std::optional<int64_t> Number(const Parameters& parameters, const char* key) {
  int64_t number = 0;
  const auto found = parameters.find(key);
  if (found == parameters.end() || !absl::SimpleAtoi(found->second, &number) || number < 0) {
    return std::nullopt;
  }
  return number;
}

std::string Text(const Parameters& parameters, const char* key) {
  const auto found = parameters.find(key);
  return found == parameters.end() ? std::string() : std::string(Unquoted(found->second));
}

// Reads what the thread keeps for PyTorch's own profiler; these works may have no tensors here. A
// group of coalesced works keeps nothing, and PyTorch would log a warning for each.
void ReadParameters(const Api& api, const void* record_function, const char* name,
                    CollectiveFacts* facts) {
  if (api.collective_parameters == nullptr || absl::EndsWith(name, ":coalesced")) return;
  const Parameters parameters = api.collective_parameters(record_function, ParameterChoice());
  facts->process_group = Text(parameters, "Process Group Name");
  facts->sequence = Number(parameters, "Seq");
  facts->group_size = Number(parameters, "Group size");
  const ElementType type = ElementTypeOf(Text(parameters, "dtype"));
  const std::optional<int64_t> elements = Number(parameters, "In msg nelems");
  if (type.bytes == 0 || !elements.has_value()) return;
  facts->dtype = std::string(type.dtype);
  facts->bytes = *elements * type.bytes;
}

}  // namespace

bool IsCollective(const char* name) { return StartsWithAny(name, kBackends); }

ElementType ElementTypeOf(std::string_view name) {
  const auto* const found = std::find_if(kTypes.begin(), kTypes.end(),
                                         [name](const NamedType& one) { return one.name == name; });
  return found == kTypes.end() ? ElementType() : found->type;
}

CollectiveFacts ReadCollective(const Api& api, const void* record_function, const char* name) {
  CollectiveFacts facts;
  CatchTorchExceptions(api, [&] {
    if (StartsWithAny(name, kWithParameters)) {
      ReadParameters(api, record_function, name, &facts);
    } else {
      ReadTensors(api, record_function, &facts);
    }
  });
  return facts;
}

}  // namespace jobscope::framework::torch
