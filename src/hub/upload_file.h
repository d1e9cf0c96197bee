// A file on its way to the hub.
#pragma once

#include "hub/faults.h"
#include "hub/progress_meter.h"

namespace sightline {

struct LocalFile {
  std::string path;  // in the repository
  std::filesystem::path source;
  uint64_t size = 0;
  std::string sha256{};
  std::string blob_id{};  // git's SHA-1
  std::string sample{};   // its first 512 bytes
};

// Reads a file once: both digests and the sample. kInvalidRequest for what is no file.
Result<LocalFile> ReadLocalFile(const HubUploadFile& file, ProgressMeter& meter, const std::stop_token& stop);

// `size` bytes from `offset` on, for a request. Bytes that are gone since are an error.
Result<HttpBodyReader> ReaderOf(const LocalFile& file, uint64_t offset, uint64_t size);

}  // namespace sightline
