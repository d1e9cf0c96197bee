#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <system_error>

#include "store/documents.h"
#include "store/store.h"

namespace sightline {
namespace {

constexpr std::array kOwnKeys = {"repo_id", "container",    "image",           "revision", "manifest", "arch",
                                 "profile", "image_digest", "image_loaded_id", "profiles", "pinned",   "native"};

bool SameId(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

IndexEntry ToEntry(const std::string& id, const Value& map) {
  IndexEntry entry;
  entry.id = id;
  entry.container = BoolMember(map, "container");
  entry.mode = BoolMember(map, "native") ? RunMode::kNative : RunMode::kContainer;
  entry.image = TextMember(map, "image");
  entry.revision = TextIn(map, "revision");
  entry.manifest = TextMember(map, "manifest");
  entry.arch = TextMember(map, "arch");
  entry.image_digest = TextIn(map, "image_digest");
  entry.image_loaded_id = TextIn(map, "image_loaded_id");
  entry.profile = TextMember(map, "profile");
  entry.profiles = TextsIn(map, "profiles");
  entry.pinned = BoolMember(map, "pinned");
  for (const Value::Member& member : *map.AsMap()) {
    if (std::find(kOwnKeys.begin(), kOwnKeys.end(), member.key) == kOwnKeys.end()) {
      entry.other.Set(member.key, member.value);
    }
  }
  return entry;
}

Value ToValue(const IndexEntry& entry) {
  Value map{Value::Map{}};
  map.Set("repo_id", TextValue(std::string_view(entry.id)));
  map.Set("container", BoolValue(entry.container));
  map.Set("image", TextValue(std::string_view(entry.image)));
  map.Set("revision", TextValue(entry.revision));
  map.Set("manifest", TextValue(std::string_view(entry.manifest.native())));
  map.Set("arch", TextValue(std::string_view(entry.arch)));
  map.Set("image_digest", TextValue(entry.image_digest));
  map.Set("image_loaded_id", TextValue(entry.image_loaded_id));
  map.Set("profile", TextValue(std::string_view(entry.profile)));
  map.Set("profiles", TextList(entry.profiles));
  map.Set("pinned", BoolValue(entry.pinned));
  map.Set("native", BoolValue(entry.mode == RunMode::kNative));
  for (const Value::Member& member : *entry.other.AsMap()) map.Set(member.key, member.value);
  return map;
}

std::vector<IndexEntry> ToEntries(const Value& document) {
  std::vector<IndexEntry> entries;
  for (const Value::Member& member : *document.AsMap()) {
    if (member.value.AsMap() != nullptr) entries.push_back(ToEntry(member.key, member.value));
  }
  return entries;
}

std::filesystem::path LockOf(const std::filesystem::path& index) { return index.parent_path() / ".installed.lock"; }

// For writing: what cannot be read is kept beside, so that nobody's list is lost by ours.
Result<Value> ReadOrSetAside(const std::filesystem::path& file) {
  Result<Value> document = ReadMapFile(file);
  if (document || document.error().code != Code::kCorruptWeights) return document;
  std::filesystem::path beside = file;
  beside += ".damaged";
  std::error_code error;
  std::filesystem::rename(file, beside, error);
  if (error) return tl::make_unexpected(ErrnoError("rename", file, error.value()));
  LogWarning(fmt::format("{} is no JSON object; it is kept as {}", file.string(), beside.string()));
  return Value{Value::Map{}};
}

// The key as the file has it.
std::string KeyOf(const Value& document, const std::string& id) {
  for (const Value::Member& member : *document.AsMap()) {
    if (SameId(member.key, id)) return member.key;
  }
  return id;
}

}  // namespace

Result<std::vector<IndexEntry>> PackageIndex::ReadStrictly() const {
  SIGHTLINE_ASSIGN_OR_RETURN(const Value document, ReadMapFile(file_));
  return ToEntries(document);
}

std::vector<IndexEntry> PackageIndex::Read() const { return ReadStrictly().value_or(std::vector<IndexEntry>()); }

std::optional<IndexEntry> PackageIndex::Find(std::string_view id) const {
  for (IndexEntry& entry : Read()) {
    if (SameId(entry.id, id)) return std::move(entry);
  }
  return std::nullopt;
}

Status PackageIndex::Put(const IndexEntry& entry) const {
  SIGHTLINE_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(LockOf(file_), FileLock::Kind::kExclusive));
  SIGHTLINE_ASSIGN_OR_RETURN(Value document, ReadOrSetAside(file_));
  document.Set(KeyOf(document, entry.id), ToValue(entry));
  return WriteMapFile(file_, document);
}

Result<bool> PackageIndex::Remove(const std::string& id) const {
  SIGHTLINE_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(LockOf(file_), FileLock::Kind::kExclusive));
  SIGHTLINE_ASSIGN_OR_RETURN(Value document, ReadOrSetAside(file_));
  if (!RemoveMember(document, KeyOf(document, id))) return false;
  SIGHTLINE_RETURN_IF_ERROR(WriteMapFile(file_, document));
  return true;
}

}  // namespace sightline
