#include "oci/export_list.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <cerrno>
#include <nlohmann/json.hpp>

namespace sightline {
namespace {

namespace dom = simdjson::dom;

constexpr int kMaxJsonDepth = 16;
constexpr int kFormat = 1;

tl::unexpected<Error> NoExport(const std::string& source, std::string_view why) {
  return Fail(Code::kInvalidRequest, fmt::format("{}: is no export of sightline: {}", source, why));
}

Status ReadFiles(dom::array files, const std::string& source, ExportList* list) {
  for (const dom::element item : files) {
    std::string_view name, digest;
    uint64_t size = 0;
    if (item["name"].get(name) || item["digest"].get(digest) || item["size"].get(size) || !IsDigest(digest)) {
      return NoExport(source, fmt::format("files[{}] has no name, digest and size", list->files.size()));
    }
    list->files.push_back({std::string(name), std::string(digest), size});
  }
  return {};
}

}  // namespace

std::string WriteExportList(const ExportList& list) {
  nlohmann::ordered_json json{{"format", kFormat}, {"notes", list.notes}, {"files", nlohmann::ordered_json::array()}};
  if (list.notes.empty()) json["notes"] = nlohmann::ordered_json::object();
  for (const ExportedFile& file : list.files) {
    json["files"].push_back({{"name", file.name}, {"digest", file.digest}, {"size", file.size}});
  }
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<ExportList> ParseExportList(std::string_view json, const std::string& source) {
  dom::parser parser;
  dom::object object;
  auto error = parser.allocate(std::max<size_t>(json.size(), 64), kMaxJsonDepth);
  if (!error) error = parser.parse(json.data(), json.size()).get(object);
  if (error) return NoExport(source, simdjson::error_message(error));
  int64_t format = 0;
  if (object["format"].get(format)) return NoExport(source, "it names no format");
  if (format != kFormat) {
    return Fail(Code::kUnsupported, fmt::format("{}: is an export of format {}, expected {}", source, format, kFormat));
  }
  ExportList list;
  dom::object notes;
  if (!object["notes"].get(notes)) {
    for (const auto& [name, value] : notes) {
      std::string_view text;
      if (!value.get(text)) list.notes.emplace(name, text);
    }
  }
  dom::array files;
  if (object["files"].get(files)) return NoExport(source, "it lists no files");
  SIGHTLINE_RETURN_IF_ERROR(ReadFiles(files, source, &list));
  return list;
}

Result<std::string> ReadFirstMember(ByteSource source, std::string_view name, size_t max_bytes,
                                    const std::string& archive_name) {
  struct Stream {
    ByteSource source;
    std::vector<std::byte> piece = std::vector<std::byte>(64 * 1024);
  } stream{source};
  const std::unique_ptr<archive, decltype(&archive_read_free)> reader(archive_read_new(), archive_read_free);
  archive_read_support_format_tar(reader.get());
  const auto read = [](archive* of, void* self, const void** bytes) -> la_ssize_t {
    auto& from = *static_cast<Stream*>(self);
    const auto count = from.source(from.piece);
    *bytes = from.piece.data();
    if (count) return static_cast<la_ssize_t>(*count);
    archive_set_error(of, EIO, "%s", count.error().message.c_str());
    return ARCHIVE_FATAL;
  };
  archive_entry* entry = nullptr;
  if (archive_read_open(reader.get(), &stream, nullptr, read, nullptr) != ARCHIVE_OK ||
      archive_read_next_header(reader.get(), &entry) != ARCHIVE_OK) {
    return NoExport(archive_name, "it is no tar archive");
  }
  const char* found = archive_entry_pathname(entry);
  if (found == nullptr || name != found) return NoExport(archive_name, fmt::format("{} is not its first member", name));
  const auto size = static_cast<uint64_t>(std::max<int64_t>(archive_entry_size(entry), 0));
  if (size > max_bytes) return NoExport(archive_name, fmt::format("{} has {} bytes", name, size));
  std::string content(size, '\0');
  const la_ssize_t count = archive_read_data(reader.get(), content.data(), content.size());
  if (count != static_cast<la_ssize_t>(size)) return NoExport(archive_name, "it ends too early");
  return content;
}

}  // namespace sightline
