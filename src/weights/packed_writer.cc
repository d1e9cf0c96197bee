#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <new>

#include "weights/byte_writer.h"
#include "weights/packed_format.h"
#include "weights/weights.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t AlignUp(uint64_t value) {
  return (value + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;
}

// Where everything goes. The header is known but for the digests.
struct Plan {
  std::string_view key;
  std::span<const PackedEntrySpec> entries;
  std::vector<uint64_t> offsets;
  uint64_t header_bytes = 0, file_bytes = 0;
  PackingProgress progress = {};

  // Entry i is done.
  void Report(size_t i) const {
    if (!progress) return;
    progress(static_cast<size_t>(offsets[i] + entries[i].bytes - header_bytes),
             static_cast<size_t>(file_bytes - header_bytes));
  }
};

void PutText(std::string_view text, ByteWriter* out) { out->Put(static_cast<uint32_t>(text.size())).Text(text); }

std::string Header(const Plan& plan, std::string_view payload_digest) {
  ByteWriter out;
  out.Put(plan.header_bytes).Put(plan.file_bytes).Text(payload_digest);
  PutText(plan.key, &out);
  out.Put(uint64_t{plan.entries.size()});
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const PackedEntrySpec& entry = plan.entries[i];
    PutText(entry.name, &out);
    PutText(entry.layout, &out);
    out.Put(static_cast<uint32_t>(entry.shape.size()));
    for (const int64_t dimension : entry.shape) out.Put(dimension);
    out.Put(plan.offsets[i]).Put(uint64_t{entry.bytes});
  }
  std::string table = out.text();
  table.resize(std::max<size_t>(static_cast<size_t>(plan.header_bytes), kPackedDigestedFrom + table.size()) -
               kPackedDigestedFrom);
  return std::string(kPackedMagic) + Sha256Hex(AsBytes(table)) + table;
}

Plan MakePlan(std::string_view key, std::span<const PackedEntrySpec> entries, const PackingProgress& progress = {}) {
  Plan plan{key, entries, std::vector<uint64_t>(entries.size())};
  plan.progress = progress;
  plan.header_bytes = AlignUp(Header(plan, std::string(kPackedDigestBytes, '0')).size());
  plan.file_bytes = plan.header_bytes;
  for (size_t i = 0; i < entries.size(); ++i) {
    plan.offsets[i] = AlignUp(plan.file_bytes);
    plan.file_bytes = plan.offsets[i] + entries[i].bytes;
  }
  return plan;
}

struct AlignedDelete {
  void operator()(std::byte* bytes) const { ::operator delete (bytes, std::align_val_t{kPackedAlignment}); }
};
using AlignedBytes = std::unique_ptr<std::byte, AlignedDelete>;

// Why writing ended early: `fill_failed` tells the caller's own failure from one of the disk.
struct Outcome {
  Status status;
  bool fill_failed = false;
};

// The file is written in whole blocks that begin at multiples of their size, so that a kernel with large pages in its
// cache keeps it in those: weights are then read a fifth faster than from small ones.
constexpr size_t kWriteBlock = size_t{8} << 20;

class PackedWriter {
 public:
  PackedWriter(const Plan& plan, AtomicFile file) : plan_(plan), file_(std::move(file)) { block_.reserve(kWriteBlock); }

  Outcome Write() {
    if (auto status = Append(std::vector<std::byte>(static_cast<size_t>(plan_.header_bytes))); !status) return {status};
    for (size_t i = 0; i < plan_.entries.size(); ++i) {
      if (auto outcome = WriteEntry(i); !outcome.status) return outcome;
    }
    if (auto status = file_.Write(block_); !status) return {status};
    if (auto status = file_.WriteAt(0, AsBytes(Header(plan_, digest_.HexDigest()))); !status) return {status};
    return {file_.Commit()};
  }

 private:
  Status Append(std::span<const std::byte> bytes) {
    if (size() > 0) digest_.Update(bytes);  // the header is not part of it
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min(bytes.size(), kWriteBlock - block_.size()));
      block_.insert(block_.end(), part.begin(), part.end());
      bytes = bytes.subspan(part.size());
      if (block_.size() < kWriteBlock) continue;
      if (auto status = file_.Write(block_); !status) return status;
      block_.clear();
    }
    return {};
  }

  uint64_t size() const { return file_.size() + block_.size(); }

  Outcome WriteEntry(size_t i) {
    const PackedEntrySpec& entry = plan_.entries[i];
    const AlignedBytes memory(static_cast<std::byte*>(
        ::operator new (std::max<size_t>(entry.bytes, 1), std::align_val_t{kPackedAlignment}, std::nothrow)));
    if (memory == nullptr) {
      return {Fail(Code::kOutOfMemory, fmt::format("no memory for {} bytes to pack {}", entry.bytes, entry.name)),
              true};
    }
    const std::span<std::byte> bytes(memory.get(), entry.bytes);
    std::ranges::fill(bytes, std::byte{0});
    if (auto status = entry.fill(bytes); !status) return {status, true};
    const std::vector<std::byte> gap(static_cast<size_t>(plan_.offsets[i] - size()));
    if (auto status = Append(gap); !status) return {status};
    if (auto status = Append(bytes); !status) return {status};
    plan_.Report(i);
    return {};
  }

  const Plan& plan_;
  AtomicFile file_;
  std::vector<std::byte> block_;  // not yet written
  Sha256 digest_;
};

Outcome WriteToDisk(const fs::path& path, const Plan& plan) {
  auto file = AtomicFile::Create(path);
  if (!file) return {tl::make_unexpected(file.error())};
  return PackedWriter(plan, std::move(*file)).Write();
}

struct Unmap {
  size_t size;
  void operator()(void* address) const { ::munmap(address, size); }
};

// The same bytes as the file would have, in memory of this process.
Result<PackedFile> PackInMemory(const fs::path& path, const Plan& plan) {
  const auto size = static_cast<size_t>(plan.file_bytes);
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return Fail(Code::kOutOfMemory, fmt::format("no memory for {} bytes of packed weights", size));
  }
  const std::shared_ptr<void> owner(address, Unmap{size});
  const std::span<std::byte> bytes(static_cast<std::byte*>(address), size);
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    SIGHTLINE_RETURN_IF_ERROR(
        plan.entries[i].fill(bytes.subspan(static_cast<size_t>(plan.offsets[i]), plan.entries[i].bytes)));
    plan.Report(i);
  }
  const auto payload = bytes.subspan(static_cast<size_t>(plan.header_bytes));
  std::ranges::copy(AsBytes(Header(plan, Sha256Hex(payload))), bytes.begin());
  ::mprotect(address, size, PROT_READ);  // as the mapped file is
  return PackedFile::FromBytes(bytes, owner, path);
}

bool Holds(const PackedFile& file, std::span<const PackedEntrySpec> specs) {
  return std::ranges::equal(file.entries(), specs, [](const PackedFile::Entry& entry, const PackedEntrySpec& spec) {
    return entry.name == spec.name && entry.layout == spec.layout && entry.shape == spec.shape &&
           entry.bytes.size() == spec.bytes;
  });
}

// Process in the name of a temporary file of AtomicFile, ".sightline-<process>-<number>.tmp"; 0 for other files.
pid_t WriterOf(const fs::path& path) {
  constexpr std::string_view kPrefix = ".sightline-";
  const std::string name = path.filename();
  pid_t process = 0;
  if (!name.starts_with(kPrefix) || !name.ends_with(".tmp")) return 0;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), process);
  return process;
}

// Removes temporary files whose writer is gone. A writer in another container looks gone too: it will find its file
// missing and try again, which costs time and nothing else.
void RemoveLeftovers(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const pid_t writer = WriterOf(at->path());
    if (writer <= 0) continue;
    std::error_code ignored;
    const bool gone = ::kill(writer, 0) != 0 && errno == ESRCH;
    const auto written = fs::last_write_time(at->path(), ignored);
    if (ignored) continue;
    if (gone || fs::file_time_type::clock::now() - written > std::chrono::hours(1)) fs::remove(at->path(), ignored);
  }
}

}  // namespace

Status WritePackedFile(const fs::path& path, std::string_view key, std::span<const PackedEntrySpec> entries) {
  return WriteToDisk(path, MakePlan(key, entries)).status;
}

Result<PackedFile> OpenOrWritePackedFile(const fs::path& path, std::string_view key,
                                         std::span<const PackedEntrySpec> entries, const PackingProgress& progress) {
  const Plan plan = MakePlan(key, entries, progress);
  if (path.empty()) return PackInMemory(path, plan);
  auto packed = PackedFile::Open(path, key);
  if (packed && Holds(*packed, entries)) return packed;
  if (!packed && packed.error().code == Code::kCorruptWeights) LogWarning(packed.error().message + "; packing again");
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::string reason;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (std::error_code error; fs::create_directories(folder, error), error) {
      reason = ErrnoError("create", folder, error.value()).message;
      break;
    }
    RemoveLeftovers(folder);
    const Outcome outcome = WriteToDisk(path, plan);
    if (outcome.fill_failed) return tl::make_unexpected(outcome.status.error());
    if (outcome.status) {
      packed = PackedFile::Open(path, key);
      if (packed && Holds(*packed, entries)) return packed;
      reason = packed ? "another program wrote other weights to " + path.string() : packed.error().message;
    } else {
      reason = outcome.status.error().message;
      if (outcome.status.error().code != Code::kNotFound) break;  // else: somebody removed our file or the folder
    }
  }
  LogWarning(reason + "; packing into memory, which takes time at every start");
  return PackInMemory(path, plan);
}

}  // namespace sightline
