// The list at the beginning of an export.
#pragma once

#include "oci/oci.h"

namespace sightline {

struct ExportedFile {
  std::string name;
  std::string digest;
  uint64_t size = 0;
};
struct ExportList {
  std::map<std::string, std::string> notes;
  std::vector<ExportedFile> files;
};

std::string WriteExportList(const ExportList& list);
// `source` is what errors speak of.
Result<ExportList> ParseExportList(std::string_view json, const std::string& source);

// The content of the first member of a tar archive, which must have this name.
Result<std::string> ReadFirstMember(ByteSource source, std::string_view name, size_t max_bytes,
                                    const std::string& archive_name);

}  // namespace sightline
