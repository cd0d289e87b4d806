// SPDX-License-Identifier: Apache-2.0
#include "collectors/torch/torch_process_group.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "collectors/torch/torch_exceptions.h"
#include "common/process/own_memory.h"

namespace jobscope::framework::torch {
namespace {

// One input: its payload and type.
struct Input {
  uint64_t payload;
  uint64_t tag;
};
constexpr size_t kMaxInputs = 16;

// Maximum number of words searched for a pointer: in a record; in a boxed object, a list, a group
// or an entry of a map.
constexpr size_t kRecordWords = 40;
constexpr size_t kObjectWords = 16;
constexpr size_t kListWords = 8;
constexpr size_t kGroupWords = 64;
constexpr size_t kEntryWords = 4;
constexpr size_t kBackendWords = 128;

// Bytes before a virtual table's first function: two words, to which objects do not point.
constexpr uint64_t kVtableHead = 16;

// Offsets found so far, in words; 0: not yet. Equal for all operators of a process.
std::atomic<uint32_t> g_inputs_at{0};   // in the record
std::atomic<uint32_t> g_slots_at{0};    // in a boxed object
std::atomic<uint32_t> g_threads_at{0};  // in a backend

// Maximum number of searches: a group without such a backend costs a whole search of 0.1 ms each
// time.
constexpr int kMaxSearches = 32;
std::atomic<int> g_searches{0};
std::atomic<uint32_t> g_map_at{0};    // in a group
std::atomic<uint32_t> g_entry_at{0};  // in an entry of its map

bool CouldBePointer(uint64_t word) {
  return word >= 0x10000 && word < (uint64_t{1} << 47) && word % 8 == 0;
}

// Reads as many of the words as are mapped.
template <size_t kCount>
size_t ReadWords(OwnMemory* memory, uint64_t address, std::array<uint64_t, kCount>* words) {
  for (size_t count = kCount; count >= 2; count /= 2) {
    if (memory->Read(address, words->data(), count * sizeof(uint64_t))) return count;
  }
  return 0;
}

bool IsOf(OwnMemory* memory, uint64_t object, const void* vtable) {
  uint64_t word = 0;
  return vtable != nullptr && CouldBePointer(object) && memory->Read(object, &word) &&
         word == reinterpret_cast<uint64_t>(vtable) + kVtableHead;
}

bool IsGroup(const Api& api, OwnMemory* memory, uint64_t object) {
  return IsOf(memory, object, api.group_vtable) || IsOf(memory, object, api.gloo_vtable);
}

// Returns the group in the first slot of a boxed object; 0: it holds none.
uint64_t GroupIn(const Api& api, OwnMemory* memory, uint64_t object) {
  std::array<uint64_t, kObjectWords> words;
  const size_t count = ReadWords(memory, object, &words);
  const uint32_t known = g_slots_at.load(std::memory_order_relaxed);
  for (size_t at = known != 0 ? known : 1; at < (known != 0 ? known + 1 : count); ++at) {
    uint64_t group = 0;
    if (at >= count || !CouldBePointer(words[at]) || !memory->Read(words[at], &group)) continue;
    if (!IsGroup(api, memory, group)) continue;
    g_slots_at.store(static_cast<uint32_t>(at), std::memory_order_relaxed);
    return group;
  }
  return 0;
}

struct Inputs {
  std::array<Input, kMaxInputs> values;
  size_t count = 0;
};

bool ReadInputs(OwnMemory* memory, uint64_t address, size_t count, Inputs* inputs) {
  inputs->count = std::min(count, kMaxInputs);
  return CouldBePointer(address) &&
         memory->Read(address, inputs->values.data(), inputs->count * sizeof(Input));
}

// Returns the group among the operator's inputs; 0: there is none. Fills in `inputs` if there is
// one.
uint64_t FindGroup(const Api& api, OwnMemory* memory, const void* record_function, Inputs* inputs) {
  const size_t wanted = api.num_inputs(record_function);
  if (wanted == 0) return 0;
  std::array<uint64_t, kRecordWords> record;
  const size_t words = ReadWords(memory, reinterpret_cast<uint64_t>(record_function), &record);
  const uint32_t known = g_inputs_at.load(std::memory_order_relaxed);
  const size_t end = known != 0 ? known + 1 : words;
  for (size_t at = known; at + 1 < words && at < end; ++at) {
    if (record[at + 1] != wanted || !ReadInputs(memory, record[at], wanted, inputs)) continue;
    for (size_t i = 0; i < inputs->count; ++i) {
      const uint64_t payload = inputs->values[i].payload;
      const uint64_t group = CouldBePointer(payload) ? GroupIn(api, memory, payload) : 0;
      if (group == 0) continue;
      g_inputs_at.store(static_cast<uint32_t>(at), std::memory_order_relaxed);
      return group;
    }
  }
  return 0;
}

// Adds the address of a tensor; for a list of tensors that of the first one.
void AddKeys(OwnMemory* memory, const Inputs& inputs, TensorKeys* keys) {
  for (size_t i = 0; i < inputs.count; ++i) {
    const uint64_t payload = inputs.values[i].payload;
    if (!CouldBePointer(payload)) continue;
    keys->Add(payload);
    std::array<uint64_t, kListWords> words;
    const size_t count = ReadWords(memory, payload, &words);
    for (size_t at = 1; at + 1 < count; ++at) {
      const uint64_t bytes = words[at + 1] - words[at];
      const bool is_list = CouldBePointer(words[at]) && words[at + 1] > words[at] &&
                           bytes % sizeof(Input) == 0 && bytes <= 65536;
      uint64_t first = 0;
      if (!is_list || !memory->Read(words[at], &first)) continue;
      if (CouldBePointer(first)) keys->Add(first);
      break;
    }
  }
}

// Returns the group's gloo backend, from one of its maps; 0: it has none, or it was not found.
uint64_t GlooOf(const Api& api, OwnMemory* memory, uint64_t group) {
  if (IsOf(memory, group, api.gloo_vtable)) return group;  // before 2.0
  std::array<uint64_t, kGroupWords> words;
  const size_t count = ReadWords(memory, group, &words);
  const auto look = [&](size_t at, size_t first, size_t last) -> uint64_t {
    std::array<uint64_t, kEntryWords> entry;
    if (at >= count || !CouldBePointer(words[at]) || !memory->Read(words[at], &entry)) return 0;
    for (size_t k = first; k <= last; ++k) {
      if (!IsOf(memory, entry[k], api.gloo_vtable)) continue;
      g_map_at.store(static_cast<uint32_t>(at), std::memory_order_relaxed);
      g_entry_at.store(static_cast<uint32_t>(k), std::memory_order_relaxed);
      return entry[k];
    }
    return 0;
  };
  if (const uint32_t at = g_map_at.load(std::memory_order_relaxed); at != 0) {
    const uint32_t k = g_entry_at.load(std::memory_order_relaxed);
    if (const uint64_t found = look(at, k, k); found != 0) return found;
  }
  if (g_searches.fetch_add(1, std::memory_order_relaxed) >= kMaxSearches) return 0;
  for (size_t at = 1; at < count; ++at) {
    if (const uint64_t found = look(at, 0, kEntryWords - 1); found != 0) {
      g_searches.store(0, std::memory_order_relaxed);
      return found;
    }
  }
  return 0;
}

// Returns whether the description of a backend's worker threads begins at `at`: the vector of them,
// whether they must stop, the number of collectives so far, and the queue of works, whose nodes
// have 512 bytes in libstdc++.
bool IsThreads(const std::array<uint64_t, kBackendWords>& words, size_t at) {
  const uint64_t threads_bytes = words[at + 1] - words[at];
  return CouldBePointer(words[at]) && words[at + 1] > words[at] && words[at + 2] >= words[at + 1] &&
         threads_bytes % sizeof(uint64_t) == 0 && threads_bytes <= 4096 &&
         (words[at + 3] & 0xff) == 0 && CouldBePointer(words[at + 4]) && words[at + 5] >= 8 &&
         words[at + 7] <= words[at + 6] && words[at + 6] < words[at + 8] &&
         words[at + 8] - words[at + 7] == 512;
}

// Returns how many collectives the group has begun: gloo matches the ranks' collectives by this
// number. PyTorch's sequence number of such a group also counts sends and receives, which differ
// between ranks.
std::optional<int64_t> CollectivesOf(OwnMemory* memory, uint64_t gloo) {
  std::array<uint64_t, kBackendWords> words;
  const size_t count = ReadWords(memory, gloo, &words);
  const uint32_t known = g_threads_at.load(std::memory_order_relaxed);
  for (size_t at = known != 0 ? known : 1; at + 8 < count; ++at) {
    if (IsThreads(words, at)) {
      g_threads_at.store(static_cast<uint32_t>(at), std::memory_order_relaxed);
      return static_cast<int64_t>(words[at + 3] >> 32);
    }
    if (known != 0) break;
  }
  return std::nullopt;
}

// Reads the size, after the reference counts (one word or two), the store and the rank.
std::optional<int64_t> SizeOf(OwnMemory* memory, uint64_t group) {
  std::array<uint64_t, 5> words;
  if (!memory->Read(group, &words)) return std::nullopt;
  const uint64_t pair = words[CouldBePointer(words[2]) ? 3 : 4];
  const auto rank = static_cast<int32_t>(pair);
  const auto size = static_cast<int32_t>(pair >> 32);
  if (rank < 0 || rank >= size || size > 1 << 20) return std::nullopt;
  return size;
}

}  // namespace

bool TensorKeys::Has(uint64_t key) const {
  return std::find(keys.begin(), keys.begin() + count, key) != keys.begin() + count;
}

bool ReadProcessGroup(const Api& api, const void* record_function, CollectiveFacts* facts,
                      TensorKeys* keys) {
  if (api.num_inputs == nullptr || api.gloo_vtable == nullptr) return false;
  OwnMemory memory;
  Inputs inputs;
  const uint64_t group = FindGroup(api, &memory, record_function, &inputs);
  if (group == 0) return false;
  AddKeys(&memory, inputs, keys);
  const bool is_group = IsOf(&memory, group, api.group_vtable);
  const uint64_t gloo = GlooOf(api, &memory, group);
  if (is_group) facts->group_size = SizeOf(&memory, group);
  CatchTorchExceptions(api, [&] {
    if (is_group && api.group_name != nullptr) {
      const void* object = nullptr;
      std::memcpy(&object, &group, sizeof(object));
      facts->process_group = *api.group_name(object);
    }
  });
  if (gloo != 0) facts->sequence = CollectivesOf(&memory, gloo);
  return true;
}

uint64_t FirstTensorKey(const void* record_function) {
  const uint32_t at = g_inputs_at.load(std::memory_order_relaxed);
  if (at == 0) return 0;
  OwnMemory memory;
  std::array<uint64_t, 2> array;  // address, count
  uint64_t payload = 0;
  const uint64_t field = reinterpret_cast<uint64_t>(record_function) + at * sizeof(uint64_t);
  if (!memory.Read(field, &array) || array[1] == 0 || !CouldBePointer(array[0])) return 0;
  return memory.Read(array[0], &payload) && CouldBePointer(payload) ? payload : 0;
}

}  // namespace jobscope::framework::torch
