#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "base/base.h"

namespace sightline {
namespace {

EVP_MD_CTX* AsContext(void* context) { return static_cast<EVP_MD_CTX*>(context); }

void* NewContext(const EVP_MD* algorithm) {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  SIGHTLINE_CHECK(context != nullptr);
  SIGHTLINE_CHECK(EVP_DigestInit_ex(context, algorithm, nullptr) == 1);
  return context;
}

void UpdateContext(void* context, std::span<const std::byte> bytes) {
  SIGHTLINE_CHECK(EVP_DigestUpdate(AsContext(context), bytes.data(), bytes.size()) == 1);
}

std::string HexDigestOf(void* context) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  SIGHTLINE_CHECK(EVP_DigestFinal_ex(AsContext(context), digest.data(), &size) == 1);
  std::string text;
  for (const unsigned char value : std::span(digest).first(size)) {
    text.append({kDigits[value >> 4], kDigits[value & 15]});
  }
  return text;
}

}  // namespace

Sha256::Sha256() : context_(NewContext(EVP_sha256())) {}
Sha256::~Sha256() { EVP_MD_CTX_free(AsContext(context_)); }
void Sha256::Update(std::span<const std::byte> bytes) { UpdateContext(context_, bytes); }
std::string Sha256::HexDigest() { return HexDigestOf(context_); }

Sha1::Sha1() : context_(NewContext(EVP_sha1())) {}
Sha1::~Sha1() { EVP_MD_CTX_free(AsContext(context_)); }
void Sha1::Update(std::span<const std::byte> bytes) { UpdateContext(context_, bytes); }
std::string Sha1::HexDigest() { return HexDigestOf(context_); }

std::string Sha256Hex(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.Update(bytes);
  return digest.HexDigest();
}

std::string EncodeBase64(std::span<const std::byte> bytes) {
  constexpr size_t kPiece = 3u << 20;                      // OpenSSL counts in int
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // and writes a NUL behind each piece
  size_t used = 0;
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
    used += static_cast<size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data() + used),
                                                reinterpret_cast<const unsigned char*>(piece.data()),
                                                static_cast<int>(piece.size())));
  }
  text.resize(used);
  return text;
}

uint64_t Fnv1a64(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte value : bytes) {
    hash ^= static_cast<uint64_t>(value);
    hash *= 0x100000001b3u;
  }
  return hash;
}

}  // namespace sightline
