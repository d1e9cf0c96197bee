// Tar archives made member by member, well-formed or not: what a stranger may send.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace sightline::testing {

struct TarMember {
  std::string name;
  std::string content{};
  char type = '0';  // 0 file, 1 hard link, 2 link, 3 character device, 4 block device, 5 folder, 6 pipe
  std::string target{};
  unsigned mode = 0644;
  std::string magic = std::string("ustar\00000", 8);
};

inline std::string Padded(std::string bytes) {
  bytes.resize((bytes.size() + 511) / 512 * 512);
  return bytes;
}

inline std::string Octal(uint64_t value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(value));
  return text;
}

inline std::string TarHeader(const TarMember& member, uint64_t size) {
  std::string block(512, '\0');
  const auto put = [&block](size_t offset, const std::string& text) { block.replace(offset, text.size(), text); };
  put(0, member.name.substr(0, 100));
  put(100, Octal(member.mode, 7));
  put(108, Octal(0, 7));
  put(116, Octal(0, 7));
  put(124, Octal(size, 11));
  put(136, Octal(0, 11));
  put(148, "        ");
  block[156] = member.type;
  put(157, member.target.substr(0, 100));
  put(257, member.magic);
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(148, Octal(sum, 6) + std::string("\0 ", 2));
  return block;
}

// Names and targets over 100 bytes come in GNU's way.
inline std::string Member(const TarMember& member) {
  std::string bytes;
  if (member.name.size() > 100) {
    bytes += TarHeader({.name = "././@LongLink", .type = 'L'}, member.name.size() + 1) + Padded(member.name + '\0');
  }
  return bytes + TarHeader(member, member.content.size()) + Padded(member.content);
}

template <typename... Members>
std::string Tar(const Members&... members) {
  return (std::string() + ... + Member(members)) + std::string(1024, '\0');
}

}  // namespace sightline::testing
