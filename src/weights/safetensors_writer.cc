// Writes safetensors as huggingface_hub splits them: shards and an index, or one file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "weights/byte_writer.h"
#include "weights/checkpoint_formats.h"
#include "weights/weights.h"

namespace sightline {
namespace {

constexpr size_t kHeaderAlignment = 8;

uint64_t BytesOf(const TensorSpec& tensor) {
  return static_cast<uint64_t>(ElementCount(tensor.shape)) * SizeOf(DType::kBF16);
}

// A JSON string. Nothing is escaped because nothing may need it: the names are ours.
std::string Quoted(std::string_view text) {
  for (const char c : text) SIGHTLINE_CHECK(c >= ' ' && c <= '~' && c != '"' && c != '\\');
  return fmt::format("\"{}\"", text);
}

std::string HeaderOf(std::span<const TensorSpec> tensors, std::string_view note) {
  std::string text = R"({"__metadata__":{"format":"pt")";
  if (!note.empty()) text += ",\"note\":" + Quoted(note);
  text += '}';
  uint64_t at = 0;
  for (const TensorSpec& tensor : tensors) {
    const uint64_t end = at + BytesOf(tensor);
    text += fmt::format(R"(,{}:{{"dtype":"BF16","shape":[{}],"data_offsets":[{},{}]}})", Quoted(tensor.name),
                        fmt::join(tensor.shape, ","), at, end);
    at = end;
  }
  text += '}';
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return text;
}

// Values rounded to bfloat16 on their way into a file.
class BF16Output {
 public:
  explicit BF16Output(AtomicFile* file) : file_(file) {}

  Status Append(std::span<const float> values) {
    count_ += values.size();
    while (!values.empty()) {
      const auto some = values.first(std::min(values.size(), buffer_.size()));
      std::ranges::transform(some, buffer_.begin(), BF16FromFloat);
      SIGHTLINE_RETURN_IF_ERROR(file_->Write(std::as_bytes(std::span(buffer_).first(some.size()))));
      values = values.subspan(some.size());
    }
    return {};
  }
  uint64_t count() const { return count_; }

 private:
  AtomicFile* file_;
  std::vector<uint16_t> buffer_ = std::vector<uint16_t>(1 << 18);  // stays in the processor's cache
  uint64_t count_ = 0;
};

class SafetensorsWriter {
 public:
  using Fill = FunctionRef<Status(size_t index, PieceSink sink)>;
  SafetensorsWriter(const std::filesystem::path& folder, std::span<const TensorSpec> tensors, Fill fill,
                    std::string_view note)
      : folder_(folder), tensors_(tensors), fill_(fill), note_(note) {}

  Status WriteFile(const std::string& name, size_t first, size_t count) {
    const std::string header = HeaderOf(tensors_.subspan(first, count), note_);
    SIGHTLINE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(folder_ / name));
    SIGHTLINE_RETURN_IF_ERROR(file.Write(AsBytes(ByteWriter().Put(uint64_t{header.size()}).Text(header).text())));
    for (size_t i = first; i < first + count; ++i) {
      BF16Output output(&file);
      const auto sink = [&output](std::span<const float> values) { return output.Append(values); };
      SIGHTLINE_RETURN_IF_ERROR(fill_(i, sink));
      SIGHTLINE_CHECK(output.count() == static_cast<uint64_t>(ElementCount(tensors_[i].shape)));
    }
    return file.Commit();
  }

  Status WriteShards(uint64_t shard_bytes) {
    const std::vector<size_t> counts = CountsOfShards(shard_bytes);
    std::map<std::string_view, std::string> where;
    size_t first = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, counts.size());
      SIGHTLINE_RETURN_IF_ERROR(WriteFile(name, first, counts[i]));
      for (const TensorSpec& tensor : tensors_.subspan(first, counts[i])) where[tensor.name] = name;
      first += counts[i];
    }
    return WriteIndex(where);
  }

 private:
  // How many tensors go into each file, in order.
  std::vector<size_t> CountsOfShards(uint64_t shard_bytes) const {
    std::vector<size_t> counts(1);
    uint64_t used = 0;
    for (const TensorSpec& tensor : tensors_) {
      const uint64_t bytes = BytesOf(tensor);
      if (counts.back() > 0 && used + bytes > shard_bytes) {
        counts.push_back(0);
        used = 0;
      }
      ++counts.back();
      used += bytes;
    }
    return counts;
  }

  Status WriteIndex(const std::map<std::string_view, std::string>& where) const {
    uint64_t total = 0;
    std::vector<std::string> rows;
    for (const TensorSpec& tensor : tensors_) {
      total += BytesOf(tensor);
      rows.push_back(fmt::format("    {}: {}", Quoted(tensor.name), Quoted(where.at(tensor.name))));
    }
    const std::string text =
        fmt::format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{\n{}\n  }}\n}}\n",
                    total, fmt::join(rows, ",\n"));
    return WriteFileAtomically(folder_ / kModelIndexFile, AsBytes(text));
  }

  const std::filesystem::path& folder_;
  std::span<const TensorSpec> tensors_;
  Fill fill_;
  std::string_view note_;
};

// What must not stand beside the new files: a reader would take it for them, or the old index for theirs.
Status ClearFolder(const std::filesystem::path& folder, bool shards) {
  std::error_code error;
  if (shards && std::filesystem::exists(folder / kWholeModelFile, error)) {
    return Fail(Code::kInvalidRequest, fmt::format("{} holds {}, which programs would read instead of the shards to be "
                                                   "written; choose another folder",
                                                   folder.string(), kWholeModelFile));
  }
  std::filesystem::remove(folder / kModelIndexFile, error);
  if (error) return tl::make_unexpected(ErrnoError("replace", folder / kModelIndexFile, error.value()));
  return {};
}

}  // namespace

Status WriteSafetensors(const std::filesystem::path& folder, std::span<const TensorSpec> tensors, uint64_t shard_bytes,
                        FunctionRef<Status(size_t index, PieceSink sink)> fill, std::string_view note) {
  SIGHTLINE_RETURN_IF_ERROR(ClearFolder(folder, shard_bytes != 0));
  SafetensorsWriter writer(folder, tensors, fill, note);
  if (shard_bytes != 0) return writer.WriteShards(shard_bytes);
  return writer.WriteFile(std::string(kWholeModelFile), 0, tensors.size());
}

}  // namespace sightline
