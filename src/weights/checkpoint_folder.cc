// The folder layout of huggingface_hub: one model.safetensors, or shards and an index that says which tensor is where.
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <map>
#include <set>

#include "weights/checkpoint_formats.h"
#include "weights/weights.h"

namespace sightline {
namespace {

constexpr size_t kMaxIndex = 16 << 20;  // a model of 770 tensors has 0.1 MB
constexpr int kMaxJsonDepth = 16;
constexpr size_t kMaxShards = 1024;
constexpr size_t kMaxFileName = 255;

// Which file of the folder holds each tensor.
using WeightMap = std::map<std::string, std::string, std::less<>>;

// A name of the index leads to nothing but a file of its own folder.
bool IsPlainFileName(std::string_view name) {
  return name.size() <= kMaxFileName && name.ends_with(".safetensors") && !name.starts_with('.') &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

class Index {
 public:
  explicit Index(std::string source) : source_(std::move(source)) {}

  Result<WeightMap> Read(std::span<const std::byte> file) const {
    simdjson::dom::parser parser(kMaxIndex + simdjson::SIMDJSON_PADDING);
    simdjson::dom::object object, map;
    auto error = parser.allocate(file.size(), kMaxJsonDepth);
    if (!error) error = parser.parse(reinterpret_cast<const char*>(file.data()), file.size()).get(object);
    if (error) return Corrupt(source_, fmt::format("not a JSON object: {}", simdjson::error_message(error)));
    if (object["weight_map"].get(map)) return Corrupt(source_, "weight_map is missing or no object");
    WeightMap where;
    for (const auto& [name, value] : map) {
      SIGHTLINE_ASSIGN_OR_RETURN(std::string shard, ReadShard(name, value));
      if (!where.emplace(name, std::move(shard)).second) {
        return Corrupt(source_, fmt::format("lists {} twice", Printable(name)));
      }
      if (where.size() > kMaxTensors) return Corrupt(source_, fmt::format("lists more than {} tensors", kMaxTensors));
    }
    return where;
  }

 private:
  Result<std::string> ReadShard(std::string_view name, simdjson::dom::element value) const {
    std::string_view shard;
    if (name.size() > kMaxNameBytes) return Corrupt(source_, fmt::format("lists a name of {} bytes", name.size()));
    if (value.get(shard)) return Corrupt(source_, fmt::format("gives {} no file name", Printable(name)));
    if (!IsPlainFileName(shard)) {
      return Corrupt(source_,
                     fmt::format("places {} in '{}', expected the name of a .safetensors file in the same folder",
                                 Printable(name), Printable(shard)));
    }
    return std::string(shard);
  }

  std::string source_;
};

Result<Checkpoint> OpenSafetensors(const std::filesystem::path& path) {
  SIGHTLINE_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(path));
  if (LooksLikeSafetensors(checkpoint.bytes())) return checkpoint;
  return Corrupt(path.string(), "is no safetensors file");
}

Result<std::vector<Checkpoint>> OpenShards(const std::filesystem::path& index, const WeightMap& where) {
  std::set<std::string> files;
  for (const auto& [name, file] : where) files.insert(file);
  if (files.size() > kMaxShards) {
    return Corrupt(index.string(), fmt::format("lists {} files, at most {} are read", files.size(), kMaxShards));
  }
  std::vector<Checkpoint> shards;
  for (const std::string& file : files) {
    Result<Checkpoint> shard = OpenSafetensors(index.parent_path() / file);
    if (!shard && shard.error().code == Code::kNotFound) {
      return Corrupt(index.string(), fmt::format("lists the file {}, which is missing", Printable(file)));
    }
    if (!shard) return tl::make_unexpected(std::move(shard).error());
    shards.push_back(std::move(*shard));
  }
  return shards;
}

// Every tensor of the index is in its file, and every tensor of a file is in the index for that file.
Status CheckIndex(const std::string& index, const WeightMap& where, std::span<const Checkpoint> shards) {
  size_t found = 0;
  for (const Checkpoint& shard : shards) {
    const std::string file = std::filesystem::path(shard.source()).filename();
    for (const std::string& name : shard.names()) {
      const auto listed = where.find(name);
      if (listed == where.end()) {
        return Corrupt(index, fmt::format("does not list {}, which {} holds", Printable(name), file));
      }
      if (listed->second != file) {
        return Corrupt(index, fmt::format("places {} in {}, but {} holds it", Printable(name), listed->second, file));
      }
    }
    found += shard.names().size();
  }
  if (found == where.size()) return {};
  for (const auto& row : where) {
    const auto holds = [&](const Checkpoint& shard) { return shard.Find(row.first) != nullptr; };
    if (std::ranges::none_of(shards, holds)) {
      return Corrupt(index, fmt::format("places {} in {}, which does not hold it", Printable(row.first), row.second));
    }
  }
  return {};
}

}  // namespace

struct CheckpointFolder::State {
  std::string source;
  std::vector<Checkpoint> shards;
  std::vector<std::string> names;
  std::map<std::string_view, const TensorView*> tensors;  // keys and views of the shards
  uint64_t tensor_bytes = 0;
};

Result<CheckpointFolder> CheckpointFolder::Open(const std::filesystem::path& folder) {
  const std::filesystem::path whole = folder / kWholeModelFile, index = folder / kModelIndexFile;
  auto state = std::make_shared<State>();
  state->source = folder.string();
  std::error_code ignored;
  if (std::filesystem::exists(whole, ignored)) {
    SIGHTLINE_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenSafetensors(whole));
    state->shards.push_back(std::move(checkpoint));
  } else if (std::filesystem::exists(index, ignored)) {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> file, ReadFile(index, kMaxIndex));
    SIGHTLINE_ASSIGN_OR_RETURN(const WeightMap where, Index(index.string()).Read(file));
    SIGHTLINE_ASSIGN_OR_RETURN(state->shards, OpenShards(index, where));
    SIGHTLINE_RETURN_IF_ERROR(CheckIndex(index.string(), where, state->shards));
  } else {
    return Fail(Code::kNotFound,
                fmt::format("{} has neither {} nor {}", folder.string(), kWholeModelFile, kModelIndexFile));
  }
  for (const Checkpoint& shard : state->shards) {
    for (const std::string& name : shard.names()) {
      const TensorView* view = shard.Find(name);
      state->names.push_back(name);
      state->tensors.emplace(name, view);
      state->tensor_bytes += static_cast<uint64_t>(ElementCount(view->shape)) * SizeOf(view->dtype);
    }
  }
  CheckpointFolder result;
  result.state_ = std::move(state);
  return result;
}

const std::vector<std::string>& CheckpointFolder::names() const { return state_->names; }

const TensorView* CheckpointFolder::Find(std::string_view name) const {
  const auto found = state_->tensors.find(name);
  return found == state_->tensors.end() ? nullptr : found->second;
}

const std::string& CheckpointFolder::source() const { return state_->source; }

std::string CheckpointFolder::identity() const {
  std::string identity;
  for (const Checkpoint& shard : state_->shards) identity += shard.identity() + "\n";
  return identity;
}

const std::string& CheckpointFolder::note() const {
  static const std::string none;
  return state_->shards.empty() ? none : state_->shards.front().note();
}

uint64_t CheckpointFolder::tensor_bytes() const { return state_->tensor_bytes; }

}  // namespace sightline
