// Writing members of a stranger's archive below a folder, and nowhere else. Each name is walked part by part from an
// open folder, so that no link can lead a write away, whatever else happens to the folder meanwhile.
#pragma once

#include "oci/oci.h"

namespace sightline {

// The parts of a member's name; kInvalidRequest says why a name is refused. "./a//b/" is a, b; "." is empty.
Result<std::vector<std::string>> CheckMemberName(std::string_view name, size_t max_depth);

// Not thread-safe. Owns the open folder.
class MemberTree {
 public:
  static Result<MemberTree> Open(const std::filesystem::path& folder);
  MemberTree(MemberTree&& other) noexcept;
  MemberTree& operator=(MemberTree&&) = delete;
  ~MemberTree();

  using Parts = std::vector<std::string>;
  Status MakeFolder(const Parts& parts, unsigned mode);
  // A descriptor of the new file, which the caller closes.
  Result<int> MakeFile(const Parts& parts, unsigned mode);
  Status MakeLink(const Parts& parts, const std::string& target);
  Status MakeHardLink(const Parts& parts, const Parts& target);

 private:
  explicit MemberTree(int root) : root_(root) {}
  Result<int> OpenParent(const Parts& parts, bool make) const;

  int root_;
};

}  // namespace sightline
