// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/names.h"

#include <limits>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/sync/mutex.h"
#include "common/text/utf8.h"
#include "common/xspace/wire/absl_view.h"
#include "common/xspace/wire/fields.h"

namespace jobscope::xspace {
namespace {

using Ids = absl::flat_hash_map<std::string, uint64_t>;

struct PlaneNames {
  Ids events;            // plain names
  Ids decorated_events;  // keyed by name, display name and stats, each prefixed by its length
  uint64_t event_count = 0;
  Ids stats;
  absl::flat_hash_map<int64_t, std::string> lines;
};

// Line ids that XProf reserves for lines it derives itself, and 0, which Names::Line returns for
// "refused".
constexpr uint32_t kDerivedBegin = 0xdeadbeef;
constexpr uint32_t kDerivedCount = 390;
constexpr int64_t kLineIdStep = int64_t{1} << 32;

int64_t UsableLine(int64_t line) {
  // Moves every id that is equal modulo 2^32, so that no two lines share one id.
  const auto low = static_cast<uint32_t>(line);
  const bool reserved = low == 0 || low - kDerivedBegin < kDerivedCount;
  if (line < 0 || !reserved || line > std::numeric_limits<int64_t>::max() - kLineIdStep) {
    return line;
  }
  return line + kLineIdStep;
}

void AppendPart(std::string_view part, std::string* key) {
  const uint64_t size = part.size();
  key->append(reinterpret_cast<const char*>(&size), sizeof(size));
  key->append(part.data(), part.size());
}

}  // namespace

struct Names::State {
  ItemSink* const sink;

  Mutex mutex;
  absl::flat_hash_map<std::string, PlaneKey> plane_keys ABSL_GUARDED_BY(mutex);
  std::vector<PlaneNames> planes ABSL_GUARDED_BY(mutex);  // [key - 1]
  std::string item ABSL_GUARDED_BY(mutex);                // reused

  // An insertion threw for lack of memory. The hash tables are then in an unspecified state:
  // nothing may read or destroy them.
  bool broken ABSL_GUARDED_BY(mutex) = false;

  explicit State(ItemSink* s) : sink(s) {}

  template <typename Insertion>
  void Insert(Insertion insertion)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    broken = true;
    insertion();
    broken = false;
  }

  PlaneNames* Find(PlaneKey plane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return broken || plane == 0 || plane > planes.size() ? nullptr : &planes[plane - 1];
  }

  // Appends the item that declares one name.
  bool Declare(PlaneKey plane, uint32_t kind, uint64_t id, std::string_view name,
               std::string_view display_name, std::string_view stats)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    item.clear();
    protozero::pbf_writer writer(item);
    writer.add_uint32(names_field::kPlane, plane);
    {
      protozero::pbf_writer entry(writer, kind);
      entry.add_uint64(name_field::kId, id);
      entry.add_string(name_field::kName, name.data(), name.size());
      if (!display_name.empty()) {
        entry.add_string(name_field::kDisplayName, display_name.data(), display_name.size());
      }
      if (!stats.empty()) entry.add_bytes(name_field::kStats, stats.data(), stats.size());
    }
    return sink->Append(ItemKind::kNames, item);
  }
};

Names::Names(ItemSink* sink) : state_(new State(sink)) {}

Names::~Names() {
  if (!state_->broken) delete state_;
}

PlaneKey Names::Plane(std::string_view name, int64_t id) {
  std::string scratch;
  name = name.empty() ? "unnamed" : ToUtf8(name, &scratch);
  const MutexLock lock(&state_->mutex);
  if (state_->broken) return 0;
  const auto found = state_->plane_keys.find(AbslView(name));
  if (found != state_->plane_keys.end()) return found->second;
  const auto key = static_cast<PlaneKey>(state_->planes.size() + 1);
  state_->item.clear();
  protozero::pbf_writer writer(state_->item);
  writer.add_uint32(plane_field::kPlane, key);
  writer.add_sint64(plane_field::kId, id);
  writer.add_string(plane_field::kName, name.data(), name.size());
  if (!state_->sink->Append(ItemKind::kPlane, state_->item)) return 0;
  state_->Insert([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) {
    state_->plane_keys.emplace(name, key);
    state_->planes.emplace_back();
  });
  return key;
}

bool Names::AddPlaneStats(PlaneKey plane, std::string_view stats) {
  const MutexLock lock(&state_->mutex);
  if (state_->Find(plane) == nullptr) return false;
  if (stats.empty()) return true;
  state_->item.clear();
  protozero::pbf_writer writer(state_->item);
  writer.add_uint32(plane_field::kPlane, plane);
  writer.add_bytes(plane_field::kStats, stats.data(), stats.size());
  return state_->sink->Append(ItemKind::kPlane, state_->item);
}

uint64_t Names::Event(PlaneKey plane, std::string_view name, std::string_view display_name,
                      std::string_view stats) {
  std::string name_scratch;
  std::string display_scratch;
  name = ToUtf8(name, &name_scratch);
  display_name = ToUtf8(display_name, &display_scratch);
  const bool decorated = !display_name.empty() || !stats.empty();
  std::string key;
  if (decorated) {
    AppendPart(name, &key);
    AppendPart(display_name, &key);
    AppendPart(stats, &key);
  }
  const MutexLock lock(&state_->mutex);
  PlaneNames* const names = state_->Find(plane);
  if (names == nullptr) return 0;
  Ids* const ids = decorated ? &names->decorated_events : &names->events;
  const std::string_view lookup = decorated ? std::string_view(key) : name;
  const auto found = ids->find(AbslView(lookup));
  if (found != ids->end()) return found->second;
  const uint64_t id = names->event_count + 1;
  if (!state_->Declare(plane, names_field::kEvents, id, name, display_name, stats)) return 0;
  names->event_count = id;
  state_->Insert([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) { ids->emplace(lookup, id); });
  return id;
}

uint64_t Names::Stat(PlaneKey plane, std::string_view name) {
  std::string scratch;
  name = ToUtf8(name, &scratch);
  const MutexLock lock(&state_->mutex);
  PlaneNames* const names = state_->Find(plane);
  if (names == nullptr) return 0;
  const auto found = names->stats.find(AbslView(name));
  if (found != names->stats.end()) return found->second;
  const uint64_t id = names->stats.size() + 1;
  if (!state_->Declare(plane, names_field::kStats, id, name, {}, {})) return 0;
  state_->Insert(
      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) { names->stats.emplace(name, id); });
  return id;
}

int64_t Names::Line(PlaneKey plane, int64_t line, std::string_view name) {
  return DeclareLine(plane, line, name, /*rename=*/true);
}

int64_t Names::EnsureLine(PlaneKey plane, int64_t line, std::string_view name) {
  return DeclareLine(plane, line, name, /*rename=*/false);
}

int64_t Names::DeclareLine(PlaneKey plane, int64_t line, std::string_view name, bool rename) {
  const int64_t key = UsableLine(line);
  std::string scratch;
  name = ToUtf8(name, &scratch);
  const MutexLock lock(&state_->mutex);
  PlaneNames* const names = state_->Find(plane);
  if (names == nullptr) return 0;
  const auto found = names->lines.find(key);
  if (found != names->lines.end() && (!rename || found->second == name)) return key;
  state_->item.clear();
  protozero::pbf_writer writer(state_->item);
  writer.add_uint32(line_field::kPlane, plane);
  writer.add_sint64(line_field::kLine, key);
  writer.add_string(line_field::kName, name.data(), name.size());
  if (!state_->sink->Append(ItemKind::kLine, state_->item)) {
    // A line that has been declared keeps its name.
    return found == names->lines.end() ? 0 : key;
  }
  state_->Insert([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) {
    names->lines[key] = std::string(name);
  });
  return key;
}

}  // namespace jobscope::xspace
