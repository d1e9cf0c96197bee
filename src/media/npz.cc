#include <archive.h>
#include <archive_entry.h>

#include <bit>
#include <memory>
#include <new>

#include "media/media.h"

namespace sightline {
namespace {

static_assert(std::endian::native == std::endian::little, "the files written here say '<f4'");

// numpy/lib/format.py, version 1.0: magic, length of the text, a Python literal padded so that data begin on 64 bytes.
std::string NpyHeader(std::span<const int64_t> shape) {
  constexpr size_t kAlignment = 64, kFixedBytes = 10;
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int64_t side : shape) text += std::to_string(side) + ", ";
  if (shape.size() > 1) text.resize(text.size() - 2);
  if (shape.size() == 1) text.pop_back();
  text += "), }";
  text.append(kAlignment - 1 - (kFixedBytes + text.size()) % kAlignment, ' ');
  text += '\n';
  SIGHTLINE_CHECK(text.size() < 65536);
  const auto low = static_cast<char>(text.size() & 255), high = static_cast<char>(text.size() >> 8);
  return std::string("\x93NUMPY\x01\x00", 8) + low + high + text;
}

// Only memory can run out here.
void CheckWritten(int64_t result) {
  if (result < ARCHIVE_OK) throw std::bad_alloc();
}

void WriteArray(archive* zip, const NpzArray& array) {
  int64_t count = 1;
  for (int64_t side : array.shape) count *= side;
  SIGHTLINE_CHECK(count == static_cast<int64_t>(array.values.size()));
  const std::string header = NpyHeader(array.shape);
  const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(), archive_entry_free);
  if (entry == nullptr) throw std::bad_alloc();
  archive_entry_set_pathname(entry.get(), (array.name + ".npy").c_str());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  archive_entry_set_size(entry.get(), static_cast<int64_t>(header.size() + array.values.size_bytes()));
  CheckWritten(archive_write_header(zip, entry.get()));
  CheckWritten(archive_write_data(zip, header.data(), header.size()));
  CheckWritten(archive_write_data(zip, array.values.data(), array.values.size_bytes()));
}

}  // namespace

std::vector<std::byte> EncodeNpz(std::span<const NpzArray> arrays) {
  std::vector<std::byte> file;
  const std::unique_ptr<archive, decltype(&archive_write_free)> zip(archive_write_new(), archive_write_free);
  if (zip == nullptr) throw std::bad_alloc();
  CheckWritten(archive_write_set_format_zip(zip.get()));
  CheckWritten(archive_write_zip_set_compression_store(zip.get()));
  CheckWritten(archive_write_set_bytes_in_last_block(zip.get(), 1));  // no padding
  const auto append = [](archive*, void* out, const void* data, size_t size) -> la_ssize_t {
    const auto* bytes = static_cast<const std::byte*>(data);
    auto& to = *static_cast<std::vector<std::byte>*>(out);
    to.insert(to.end(), bytes, bytes + size);
    return static_cast<la_ssize_t>(size);
  };
  CheckWritten(archive_write_open(zip.get(), &file, nullptr, append, nullptr));
  for (const NpzArray& array : arrays) WriteArray(zip.get(), array);
  CheckWritten(archive_write_close(zip.get()));
  return file;
}

}  // namespace sightline
