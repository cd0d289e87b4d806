// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/bridge/values.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace jobscope::python {
namespace {

// Bits of tp_flags, fixed by the stable ABI.
constexpr unsigned long kLongSubclass = 1UL << 24;
constexpr unsigned long kBytesSubclass = 1UL << 27;
constexpr unsigned long kUnicodeSubclass = 1UL << 28;

std::string BytesOf(const Api& api, Object* bytes) {
  char* data = nullptr;
  intptr_t size = 0;
  if (api.Bytes_AsStringAndSize(bytes, &data, &size) != 0) {
    api.Err_Clear();
    return {};
  }
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace

std::string TextOf(const Api& api, Object* object) {
  const Ref encoded(api, api.Unicode_AsEncodedString(object, "utf-8", "replace"));
  if (!encoded) {
    api.Err_Clear();
    return {};
  }
  return BytesOf(api, encoded.get());
}

int64_t IntegerOf(const Api& api, Object* object) {
  const long long value = api.Long_AsLongLong(object);
  if (value == -1 && api.Err_Occurred() != nullptr) {
    api.Err_Clear();
    return 0;
  }
  return value;
}

std::string TypeName(const Api& api, Object* object) {
  const Ref type(api, api.Object_Type(object));
  const Ref name(api, type ? api.Object_GetAttrString(type.get(), "__name__") : nullptr);
  if (!name) {
    api.Err_Clear();
    return "?";
  }
  return TextOf(api, name.get());
}

Object* ToPython(const Api& api, const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return api.Long_FromLongLong(*integer);
  if (const auto* real = std::get_if<double>(&value)) return api.Float_FromDouble(*real);
  if (const auto* text = std::get_if<std::string>(&value)) {
    return api.Unicode_DecodeUTF8(text->data(), static_cast<intptr_t>(text->size()), "replace");
  }
  if (const auto* bytes = std::get_if<Bytes>(&value)) {
    return api.Bytes_FromStringAndSize(bytes->data.data(),
                                       static_cast<intptr_t>(bytes->data.size()));
  }
  api.IncRef(api.none);
  return api.none;
}

Object* ToPython(const Api& api, const std::vector<Value>& values) {
  Ref tuple(api, api.Tuple_New(static_cast<intptr_t>(values.size())));
  if (!tuple) return nullptr;
  for (size_t i = 0; i < values.size(); ++i) {
    Object* const item = ToPython(api, values[i]);
    if (item == nullptr) return nullptr;
    api.Tuple_SetItem(tuple.get(), static_cast<intptr_t>(i), item);
  }
  return tuple.release();
}

absl::StatusOr<Value> FromPython(const Api& api, Object* object) {
  if (object == api.none) return Value();
  const Ref type(api, api.Object_Type(object));
  const unsigned long flags = type ? api.Type_GetFlags(type.get()) : 0;
  if ((flags & kLongSubclass) != 0) {
    const long long value = api.Long_AsLongLong(object);
    if (value == -1 && api.Err_Occurred() != nullptr) {
      api.Err_Clear();
      return absl::InvalidArgumentError("an int beyond 64 bits");
    }
    return Value(static_cast<int64_t>(value));
  }
  if ((flags & kUnicodeSubclass) != 0) return Value(TextOf(api, object));
  if ((flags & kBytesSubclass) != 0) return Value(Bytes{BytesOf(api, object)});
  if (type && api.Type_IsSubtype(type.get(), api.float_type) != 0) {
    return Value(api.Float_AsDouble(object));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a ", TypeName(api, object), "; None, int, float, str and bytes are passed"));
}

}  // namespace jobscope::python
