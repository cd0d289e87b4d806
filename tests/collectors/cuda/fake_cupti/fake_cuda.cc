// SPDX-License-Identifier: Apache-2.0
//
// A libcuda.so.1 of a driver without a GPU: answers the queries that need no context. What it
// answers is set by FakeCudaSet.
#include <stddef.h>
#include <stdint.h>

#include <cstring>

#include "tests/collectors/cuda/fake_cupti/export.h"

namespace {

constexpr int kNotInitialized = 3;

int result = 0;
int devices = 1;
int version = 13000;
int inits = 0;

}  // namespace

// `new_result`: of cuDeviceGetCount. 3: nobody has called cuInit.
EXPORT void FakeCudaSet(int new_result, int new_devices, int new_version) {
  result = new_result;
  devices = new_devices;
  version = new_version;
  inits = 0;
}
EXPORT int FakeCudaInits() { return inits; }

EXPORT int cuInit(unsigned /*flags*/) {
  ++inits;
  result = 0;
  return 0;
}
EXPORT int cuDriverGetVersion(int* out) {
  *out = version;
  return 0;
}
EXPORT int cuDeviceGetCount(int* count) {
  *count = result == 0 ? devices : 0;
  return result;
}
EXPORT int cuDeviceGet(int* device, int ordinal) {
  if (result == kNotInitialized) return result;
  *device = ordinal;
  return ordinal < devices ? 0 : 101;
}
EXPORT int cuDeviceGetName(char* name, int size, int /*device*/) {
  std::strncpy(name, "Fake H100", static_cast<size_t>(size));
  return 0;
}
// The UUID of GPU n ends in n.
EXPORT int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  for (int i = 0; i < 15; ++i) uuid[i] = static_cast<unsigned char>(0xa0 + i);
  uuid[15] = static_cast<unsigned char>(device);
  return 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t* bytes, int /*device*/) {
  *bytes = size_t{80} << 30;
  return 0;
}
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  switch (attribute) {
    case 13:
      *value = 1'980'000;
      return 0;
    case 16:
      *value = 132;
      return 0;
    case 36:
      *value = 2'619'000;
      return 0;
    case 37:
      *value = 5120;
      return 0;
    case 39:
      *value = 2048;
      return 0;
    case 75:
      *value = 9;
      return 0;
    case 76:
      *value = 0;
      return 0;
    case 81:
      *value = 233'472;
      return 0;
    case 82:
      *value = 65'536;
      return 0;
    case 106:
      *value = 32;
      return 0;
    case 111:
      *value = 1024;
      return 0;
    default:
      *value = 0;
      return 1;
  }
}
