// SPDX-License-Identifier: Apache-2.0
//
// A program that calls NVTX's functions in any order, with attributes of any size and type, schemas
// with any entries, payloads of any bytes, handles and ids that it made up. Nothing outside of what
// the caller owns is read, and what reaches the recorder keeps its limits.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectors/nvtx/abi.h"
#include "collectors/nvtx/handler.h"
#include "collectors/nvtx/names.h"
#include "collectors/nvtx/payload.h"
#include "collectors/nvtx/recorder.h"
#include "common/xspace/segment/nvtx_place.h"
#include "jobscope/detail/writer_abi.h"
#include "tests/collectors/nvtx/nvtx_unit.h"
#include "tests/fuzz_input.h"

namespace jobscope {
namespace {

namespace abi = nvtx::abi;
using Program = nvtx_test::Unit<0>;
using OtherProgram = nvtx_test::Unit<1>;  // attached again and again

// ---- a recorder that checks what it is given ----

uint32_t g_mask = 0;
uint32_t g_sites = 0;
bool g_refuses = false;  // begins no scope

void CheckArgs(const jobscope_arg* args, uint32_t count) {
  Require(count <= JOBSCOPE_MAX_KEYS);
  for (uint32_t i = 0; i < count; ++i) {
    Require(args[i].type <= JOBSCOPE_ARG_STRING);
    if (args[i].type != JOBSCOPE_ARG_STRING) continue;
    Require(args[i].length <= nvtx::kMaxTextBytes);
    // A copy: a sanitizer sees a text that is not there.
    const std::string copy(args[i].value.text, args[i].length);
    Require(copy.size() == args[i].length);
  }
}

uint32_t RegisterSite(jobscope_site* site, const char* const* keys, uint32_t count) {
  Require(count <= JOBSCOPE_MAX_KEYS);
  for (uint32_t i = 0; i < count; ++i) Require(strlen(keys[i]) <= nvtx::kMaxFieldNameBytes);
  Require(strlen(site->name) <= nvtx::kMaxTextBytes);
  (void)ParseNvtxPlace(site->file);
  site->id = ++g_sites;
  return site->id;
}
jobscope_token Begin(uint32_t site) {
  Require(site > 0 && site <= g_sites);
  return {g_refuses ? 0U : 1U, 0};
}
void EndArgs(uint32_t site, jobscope_token token, const jobscope_arg* args, uint32_t count) {
  Require(site > 0 && site <= g_sites && token.begin_ticks != 0);
  CheckArgs(args, count);
}
void End(uint32_t site, jobscope_token token) { EndArgs(site, token, nullptr, 0); }
void WriteEvent(uint32_t site, uint32_t kind, const jobscope_arg* args, uint32_t count) {
  // The site of an end comes from the id, which the caller may have made up.
  Require(kind == JOBSCOPE_KIND_ASYNC_END || (site > 0 && site <= g_sites));
  CheckArgs(args, count);
}
void SetThreadName(const char* name) { Require(strlen(name) <= nvtx::kMaxTextBytes); }

const nvtx::WriterTable* Writer() {
  static const nvtx::WriterTable table = [] {
    nvtx::WriterTable made = {};
    made.size = sizeof(made);
    made.mask = &g_mask;
    made.register_site = &RegisterSite;
    made.begin = &Begin;
    made.end = &End;
    made.end_args = &EndArgs;
    made.event = &WriteEvent;
    made.set_thread_name = &SetThreadName;
    return made;
  }();
  return &table;
}
int Initialize(void* table) { return nvtx::Attach(Writer(), table) ? 1 : 0; }
int InitializeExtension(void* module) { return nvtx::AttachExtension(Writer(), module) ? 1 : 0; }

// ---- the program ----

// Promised with a size of SIZE_MAX: no schema gives a larger one here.
constexpr size_t kLargestSchema = 255;

// What calls have returned; kept, because so are domains, strings and schemas.
std::vector<const void*> g_domains = {nullptr};
std::vector<const void*> g_strings = {nullptr};
std::vector<uint64_t> g_schemas = {0};

template <typename Handle>
void Keep(Handle handle, std::vector<Handle>* all) {
  if (all->size() < 256) all->push_back(handle);
}

class Calls {
 public:
  Calls(const uint8_t* data, size_t size) : input_(data, size) {}

  void Run() {
    g_refuses = input_.TakeBool();
    while (!input_.empty()) One();
  }

 private:
  // ---- arguments, owned until the next call ----

  const char* Text() {
    const auto size = input_.Take<uint8_t>();
    if (size == 255) return nullptr;
    std::string text = input_.TakeBytes(size % 64);
    if (size >= 192) {  // a long one
      while (!text.empty() && text.size() < 200) text += std::string(text);
    }
    texts_.push_back(std::make_unique<std::string>(text));
    return texts_.back()->c_str();
  }
  const wchar_t* Wide() {
    const auto size = input_.Take<uint8_t>();
    if (size == 255) return nullptr;
    std::wstring text;
    for (int i = 0; i < size; ++i) {
      const auto bits = input_.Take<uint16_t>();  // also what is no character
      text += static_cast<wchar_t>(bits >= 0xFF00 ? uint32_t{bits} << 12 : bits);
    }
    wides_.push_back(std::make_unique<std::wstring>(text));
    return wides_.back()->c_str();
  }
  template <typename Handle>
  Handle Known(const std::vector<Handle>& all) {
    return all[input_.Take<uint8_t>() % all.size()];
  }
  const void* MadeUp(const void* handle) {
    const uintptr_t moved = reinterpret_cast<uintptr_t>(handle) +
                            static_cast<uintptr_t>(intptr_t{input_.Take<int8_t>()});
    memcpy(&handle, &moved, sizeof(moved));
    return handle;
  }
  const void* Domain() { return MadeUp(Known(g_domains)); }
  const void* String() { return MadeUp(Known(g_strings)); }
  uint64_t SchemaId() {
    const auto id = input_.Take<uint8_t>();
    return id < 128 ? id : g_schemas[id % g_schemas.size()];
  }

  // Exactly what the caller owns: a sanitizer sees a read beyond it.
  const void* Bytes(const std::string& bytes) {
    bytes_.push_back(std::make_unique<std::vector<char>>(bytes.begin(), bytes.end()));
    bytes_.back()->shrink_to_fit();
    return bytes_.back()->data();
  }
  abi::PayloadData Payload() {
    abi::PayloadData payload = {SchemaId(), 0, nullptr};
    const auto how = input_.Take<uint8_t>();
    std::string bytes = input_.TakeBytes(how % 64);
    if (how >= 192 && bytes.size() >= sizeof(void*)) {
      const void* const string = Known(g_strings);
      memcpy(bytes.data(), &string, sizeof(string));
    }
    payload.size = bytes.size();
    if ((how & 64) != 0) {
      bytes.resize(kLargestSchema);
      payload.size = SIZE_MAX;
    }
    if (how != 128) payload.payload = Bytes(bytes);
    return payload;
  }
  const abi::PayloadData* Payloads(size_t* count) {
    *count = input_.Take<uint8_t>() % 20;
    if (*count == 19) return nullptr;
    auto made = std::make_unique<std::vector<abi::PayloadData>>();
    // More than are read need not be there.
    for (size_t i = 0; i < *count && *count <= 16; ++i) made->push_back(Payload());
    payloads_.push_back(std::move(made));
    return payloads_.back()->data();
  }

  const abi::EventAttributes* Attributes() {
    const auto size = input_.Take<uint8_t>();
    if (size == 255) return nullptr;
    abi::EventAttributes full = {};
    full.version = 3;
    full.size = static_cast<uint16_t>(size <= sizeof(full) ? size : sizeof(full));
    full.category = input_.Take<uint8_t>();
    full.color_type = input_.Take<uint8_t>() % 3;
    full.color = input_.Take<uint32_t>();
    const int type = input_.Take<uint8_t>();
    full.payload_type = type < 128 ? type : type - 256;
    if (full.payload_type == -1) {
      full.payload_type = abi::kPayloadExtended;
      size_t count = 0;
      const abi::PayloadData* const payloads = Payloads(&count);
      full.payload_count = count == 18 ? -1 : static_cast<int32_t>(count);
      full.payload.uint64_value = reinterpret_cast<uintptr_t>(payloads);
    } else {
      full.payload.uint64_value = input_.Take<uint64_t>();
    }
    full.message_type = input_.Take<uint8_t>() % 5;
    if (full.message_type == abi::kMessageAscii) full.message.ascii = Text();
    if (full.message_type == abi::kMessageWide) full.message.wide = Wide();
    if (full.message_type == abi::kMessageRegistered) full.message.registered = String();
    // Version and size are always there.
    const size_t owned = std::max<size_t>(full.size, 2 * sizeof(uint16_t));
    return static_cast<const abi::EventAttributes*>(
        Bytes(std::string(reinterpret_cast<const char*>(&full), owned)));
  }

  const abi::SchemaEntry* Entries(size_t count) {
    auto made = std::make_unique<std::vector<abi::SchemaEntry>>(count);
    for (abi::SchemaEntry& entry : *made) {
      const auto flags = input_.Take<uint8_t>();
      // 8 to 10 are read, all others make the entry another thing than a number.
      entry.flags = (flags & 7ULL) << 8 | (flags >= 128 ? flags >> 3 : 0);
      entry.type = SchemaId();
      entry.name = Text();
      const auto offset = input_.Take<uint8_t>();
      entry.offset = offset == 255 ? input_.Take<uint64_t>() : offset;
    }
    entries_.push_back(std::move(made));
    return entries_.back()->data();
  }
  void RegisterSchema(const void* domain) {
    const auto call = Program::Payload<uint64_t (*)(const void*, const abi::SchemaAttributes*)>(
        abi::kSchemaRegister);
    const auto mask = input_.Take<uint16_t>();
    if (mask == 0) {
      Require(call(domain, nullptr) == 0);
      return;
    }
    abi::SchemaAttributes attributes = {};
    attributes.field_mask = mask;
    attributes.name = Text();
    attributes.static_size = input_.Take<uint8_t>();
    attributes.schema_id = input_.Take<uint8_t>();
    attributes.entry_count = input_.Take<uint8_t>() % 16;
    attributes.entries = attributes.entry_count == 15 ? nullptr : Entries(attributes.entry_count);
    Keep(call(domain, &attributes), &g_schemas);
  }
  void RegisterEnum(const void* domain) {
    const auto call =
        Program::Payload<uint64_t (*)(const void*, const abi::EnumAttributes*)>(abi::kEnumRegister);
    abi::EnumAttributes attributes = {};
    attributes.field_mask = input_.Take<uint8_t>();
    attributes.size_of_enum = input_.Take<uint8_t>();
    attributes.schema_id = input_.Take<uint8_t>();
    const bool given = attributes.field_mask != 0;
    Keep(call(domain, given ? &attributes : nullptr), &g_schemas);
  }

  // ---- calls ----

  uint64_t Id() {
    return ids_.empty() || input_.TakeBool() ? input_.Take<uint64_t>() : Known(ids_);
  }

  void Mark(const void* domain, uint8_t how) {
    using Attributes = const abi::EventAttributes*;
    switch (how % 5) {
      case 0:
        return Program::Core<void (*)(Attributes)>(abi::kMarkEx)(this->Attributes());
      case 1:
        return Program::Core<void (*)(const char*)>(abi::kMarkA)(Text());
      case 2:
        return Program::Core<void (*)(const wchar_t*)>(abi::kMarkW)(Wide());
      case 3:
        return Program::Core2<void (*)(const void*, Attributes)>(abi::kDomainMarkEx)(
            domain, this->Attributes());
      default: {
        size_t count = 0;
        const abi::PayloadData* const payloads = Payloads(&count);
        Program::Payload<void (*)(const void*, const abi::PayloadData*, size_t)>(abi::kMarkPayload)(
            domain, payloads, count);
      }
    }
  }
  template <typename Result>
  Result Open(const void* domain, uint8_t how, abi::Core ex, abi::Core ascii, abi::Core wide,
              abi::Core2 domain_ex, abi::PayloadSlot payload) {
    using Attributes = const abi::EventAttributes*;
    switch (how % 5) {
      case 0:
        return Program::Core<Result (*)(Attributes)>(ex)(this->Attributes());
      case 1:
        return Program::Core<Result (*)(const char*)>(ascii)(Text());
      case 2:
        return Program::Core<Result (*)(const wchar_t*)>(wide)(Wide());
      case 3:
        return Program::Core2<Result (*)(const void*, Attributes)>(domain_ex)(domain,
                                                                              this->Attributes());
      default: {
        size_t count = 0;
        const abi::PayloadData* const payloads = Payloads(&count);
        return Program::Payload<Result (*)(const void*, const abi::PayloadData*, size_t)>(payload)(
            domain, payloads, count);
      }
    }
  }
  void Push(const void* domain, uint8_t how) {
    const int depth = Open<int>(domain, how, abi::kRangePushEx, abi::kRangePushA, abi::kRangePushW,
                                abi::kDomainRangePushEx, abi::kRangePushPayload);
    Require(depth >= 0 || depth == abi::kNoTracking);
  }
  void Pop(const void* domain, uint8_t how) {
    int depth = 0;
    if (how % 3 == 0) depth = Program::Core<int (*)()>(abi::kRangePop)();
    if (how % 3 == 1) depth = Program::Core2<int (*)(const void*)>(abi::kDomainRangePop)(domain);
    if (how % 3 == 2) {
      depth = Program::Payload<int (*)(const void*, const abi::PayloadData*, size_t)>(
          abi::kRangePopPayload)(domain, nullptr, 0);
    }
    Require(depth >= 0 || depth == abi::kNoTracking);
  }
  void End(const void* domain, uint8_t how) {
    const uint64_t id = Id();
    if (how % 3 == 0) Program::Core<void (*)(uint64_t)>(abi::kRangeEnd)(id);
    if (how % 3 == 1) {
      Program::Core2<void (*)(const void*, uint64_t)>(abi::kDomainRangeEnd)(domain, id);
    }
    if (how % 3 == 2) {
      Program::Payload<void (*)(const void*, uint64_t, const abi::PayloadData*, size_t)>(
          abi::kRangeEndPayload)(domain, id, nullptr, 0);
    }
  }
  void Name(const void* domain, uint8_t how) {
    using Own = const void*;
    const auto number = input_.Take<uint8_t>();
    const auto tid = static_cast<uint32_t>(number == 0 ? syscall(SYS_gettid) : number);
    switch (how % 11) {
      case 0:
        return Program::Core<void (*)(uint32_t, const char*)>(abi::kNameCategoryA)(number, Text());
      case 1:
        return Program::Core<void (*)(uint32_t, const wchar_t*)>(abi::kNameCategoryW)(number,
                                                                                      Wide());
      case 2:
        return Program::Core<void (*)(uint32_t, const char*)>(abi::kNameOsThreadA)(tid, Text());
      case 3:
        return Program::Core<void (*)(uint32_t, const wchar_t*)>(abi::kNameOsThreadW)(tid, Wide());
      case 4:
        return Program::Core2<void (*)(Own, uint32_t, const char*)>(abi::kDomainNameCategoryA)(
            domain, number, Text());
      case 5:
        return Program::Core2<void (*)(Own, uint32_t, const wchar_t*)>(abi::kDomainNameCategoryW)(
            domain, number, Wide());
      case 6:
        return Keep(
            Program::Core2<Own (*)(Own, const char*)>(abi::kDomainRegisterStringA)(domain, Text()),
            &g_strings);
      case 7:
        return Keep(Program::Core2<Own (*)(Own, const wchar_t*)>(abi::kDomainRegisterStringW)(
                        domain, Wide()),
                    &g_strings);
      case 8:
        return Keep(Program::Core2<Own (*)(const char*)>(abi::kDomainCreateA)(Text()), &g_domains);
      case 9:
        return Keep(Program::Core2<Own (*)(const wchar_t*)>(abi::kDomainCreateW)(Wide()),
                    &g_domains);
      default:
        Program::Core2<void (*)(Own)>(abi::kDomainDestroy)(domain);
        Require(Program::Payload<uint8_t (*)(Own)>(abi::kDomainIsEnabled)(domain) == 1);
    }
  }
  void Attach(uint8_t how) {
    OtherProgram::core_size = how % (nvtx_test::kSlots + 1);
    Require(OtherProgram::Attach(&Initialize));
    Require(!nvtx::Attach(Writer(), nullptr) && !nvtx::Attach(nullptr, nullptr));
    abi::ExtensionSegment segment = {0, 0, nullptr};
    abi::ExtensionModule module = {3,        sizeof(module), how,     0x0104,
                                   how % 2U, &segment,       nullptr, nullptr};
    const bool known = how == abi::kPayloadModule && module.segment_count > 0;
    Require((InitializeExtension(&module) != 0) == known);
  }

  void One() {
    texts_.clear();
    wides_.clear();
    bytes_.clear();
    payloads_.clear();
    entries_.clear();
    const auto call = input_.Take<uint8_t>();
    const uint8_t how = call >> 3;
    const void* const domain = (how & 1) != 0 ? Domain() : nullptr;
    switch (call & 7) {
      case 0:
        g_mask = how % 4 != 0 ? JOBSCOPE_BIT_LEVEL1 : 0;
        if (how == 31) Attach(input_.Take<uint8_t>());
        break;
      case 1:
        Mark(domain, how);
        break;
      case 2:
        for (int i = how == 31 ? 1100 : 1; i > 0; --i) Push(domain, how);
        break;
      case 3:
        Pop(domain, how);
        break;
      case 4:
        ids_.push_back(Open<uint64_t>(domain, how, abi::kRangeStartEx, abi::kRangeStartA,
                                      abi::kRangeStartW, abi::kDomainRangeStartEx,
                                      abi::kRangeStartPayload));
        break;
      case 5:
        End(domain, how);
        break;
      case 6:
        Name(domain, how);
        break;
      default:
        how % 4 == 0 ? RegisterEnum(domain) : RegisterSchema(domain);
    }
  }

  FuzzInput input_;
  std::vector<uint64_t> ids_;
  std::vector<std::unique_ptr<std::string>> texts_;
  std::vector<std::unique_ptr<std::wstring>> wides_;
  std::vector<std::unique_ptr<std::vector<char>>> bytes_;
  std::vector<std::unique_ptr<std::vector<abi::PayloadData>>> payloads_;
  std::vector<std::unique_ptr<std::vector<abi::SchemaEntry>>> entries_;
};

}  // namespace
}  // namespace jobscope

// On a thread of its own, whose end closes its ranges: every input begins without any.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  static const bool attached =
      Program::Attach(&Initialize) && Program::AttachPayloads(&InitializeExtension);
  Require(attached);
  g_mask = JOBSCOPE_BIT_LEVEL1;
  std::thread([data, size] { Calls(data, size).Run(); }).join();
  return 0;
}
