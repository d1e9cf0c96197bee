#include "hub/hub_json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>

namespace sightline {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

// `Value` is an element, or one that was looked for and may be absent.
template <typename Value>
std::string Text(const Value& value) {
  std::string_view text;
  return value.get(text) == simdjson::SUCCESS ? std::string(text) : std::string();
}

template <typename Value>
uint64_t Number(const Value& value) {
  uint64_t number = 0;
  return value.get(number) == simdjson::SUCCESS ? number : 0;
}

template <typename Value>
bool Flag(const Value& value) {
  bool flag = false;
  return value.get(flag) == simdjson::SUCCESS && flag;
}

tl::unexpected<HubError> Unexpected(const HubSubject& subject, std::string_view what) {
  return tl::make_unexpected(
      DamagedError(subject, fmt::format("the hub's answer is no {}; is HF_ENDPOINT a hub?", what)));
}

// Calls `read(root)` with the parsed text as a Root (object or array).
template <typename Root, typename T>
HubResult<T> Read(const std::string& json, const HubSubject& subject, std::string_view what,
                  FunctionRef<HubResult<T>(const Root&)> read) {
  simdjson::dom::parser parser;
  element document;
  Root root;
  if (parser.parse(json).get(document) != simdjson::SUCCESS || document.get(root) != simdjson::SUCCESS) {
    return Unexpected(subject, what);
  }
  return read(root);
}

template <typename Value>  // an element or an object
HubRepo RepoOf(const Value& value) {
  HubRepo repo;
  repo.id = Text(value["id"]);
  repo.commit = Text(value["sha"]);
  repo.is_private = Flag(value["private"]);
  repo.gated = Text(value["gated"]);  // false, "auto" or "manual"
  repo.modified = Text(value["lastModified"]);
  repo.downloads = Number(value["downloads"]);
  repo.likes = Number(value["likes"]);
  array tags;
  if (value["tags"].get(tags) == simdjson::SUCCESS) {
    for (const element tag : tags) repo.tags.push_back(Text(tag));
  }
  repo.license = Text(value["cardData"]["license"]);
  repo.license_name = Text(value["cardData"]["license_name"]);
  repo.license_link = Text(value["cardData"]["license_link"]);
  for (const std::string& tag : repo.tags) {
    if (repo.license.empty() && tag.starts_with("license:")) repo.license = tag.substr(8);
  }
  return repo;
}

LfsAction ActionOf(const simdjson::simdjson_result<element>& value) {
  LfsAction action;
  action.url = Text(value["href"]);
  object headers;
  if (value["header"].get(headers) == simdjson::SUCCESS) {
    for (const auto& [name, content] : headers) action.headers.emplace_back(name, Text(content));
  }
  return action;
}

std::optional<uint64_t> WholeNumber(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The hub puts the size of the parts and their URLs among the headers: "chunk_size", "1", "2", ... as "00001" too.
void TakeParts(LfsObject& found) {
  std::map<uint64_t, std::string> parts;
  HttpHeaders others;
  for (auto& [name, value] : found.upload.headers) {
    const auto number = WholeNumber(name);
    if (number) {
      parts[*number] = value;
    } else if (name == "chunk_size") {
      found.part_bytes = WholeNumber(value).value_or(0);
    } else {
      others.emplace_back(name, value);
    }
  }
  for (auto& [number, url] : parts) found.part_urls.push_back(std::move(url));
  found.upload.headers = std::move(others);
}

HubResult<LfsObject> LfsObjectOf(const element& value, const HubSubject& subject) {
  LfsObject found;
  found.oid = Text(value["oid"]);
  if (const std::string refusal = Text(value["error"]["message"]); !refusal.empty()) {
    return tl::make_unexpected(MakeHubError(HubFault::kRefused, Code::kInvalidRequest, subject,
                                            "the hub refuses a file for its large file storage", "", refusal));
  }
  found.upload = ActionOf(value["actions"]["upload"]);
  found.verify = ActionOf(value["actions"]["verify"]);
  TakeParts(found);
  return found;
}

}  // namespace

HubResult<HubRepo> ReadRepo(const std::string& json, const HubSubject& subject) {
  return Read<object, HubRepo>(json, subject, "description of a repository",
                               [&](const object& root) -> HubResult<HubRepo> {
                                 HubRepo repo = RepoOf(root);
                                 if (!IsCommit(repo.commit))
                                   return Unexpected(subject, "description of a repository with its commit");
                                 return repo;
                               });
}

HubResult<std::vector<HubRepo>> ReadRepos(const std::string& json, const HubSubject& subject) {
  using Repos = std::vector<HubRepo>;
  return Read<array, Repos>(json, subject, "list of repositories", [](const array& root) -> HubResult<Repos> {
    Repos repos;
    for (const element value : root) repos.push_back(RepoOf(value));
    return repos;
  });
}

HubResult<HubUser> ReadUser(const std::string& json, const HubSubject& subject) {
  return Read<object, HubUser>(json, subject, "description of a user", [&](const object& root) -> HubResult<HubUser> {
    HubUser user{Text(root["name"]), {}};
    if (user.name.empty()) return Unexpected(subject, "description of a user with a name");
    array organizations;
    if (root["orgs"].get(organizations) == simdjson::SUCCESS) {
      for (const element value : organizations) user.organizations.push_back(Text(value["name"]));
    }
    return user;
  });
}

HubResult<std::vector<HubFile>> ReadTreePage(const std::string& json, const HubSubject& subject) {
  using Files = std::vector<HubFile>;
  return Read<array, Files>(json, subject, "list of files", [&](const array& root) -> HubResult<Files> {
    Files files;
    for (const element value : root) {
      if (Text(value["type"]) == "directory") continue;
      HubFile file{Text(value["path"]), Number(value["size"]), Text(value["oid"]), Text(value["lfs"]["oid"])};
      if (!file.sha256.empty()) file.size = Number(value["lfs"]["size"]);
      files.push_back(std::move(file));
    }
    return files;
  });
}

HubResult<std::vector<HubFile>> ReadTreeCache(const std::string& json, const HubSubject& subject) {
  using Files = std::vector<HubFile>;
  return Read<object, Files>(json, subject, "list of files", [&](const object& root) -> HubResult<Files> {
    object entries;
    if (Number(root["format_version"]) != 1 || root["files"].get(entries) != simdjson::SUCCESS) {
      return Unexpected(subject, "list of files");
    }
    Files files;
    for (const auto& [path, value] : entries) {
      HubFile file{std::string(path), Number(value["size"]), Text(value["blob_id"]), Text(value["lfs_sha256"])};
      if (!file.sha256.empty()) file.size = Number(value["lfs_size"]);
      files.push_back(std::move(file));
    }
    return files;
  });
}

HubResult<std::map<std::string, bool>> ReadUploadModes(const std::string& json, const HubSubject& subject) {
  using Modes = std::map<std::string, bool>;
  return Read<object, Modes>(json, subject, "list of upload modes", [&](const object& root) -> HubResult<Modes> {
    array files;
    if (root["files"].get(files) != simdjson::SUCCESS) return Unexpected(subject, "list of upload modes");
    Modes modes;
    for (const element value : files) modes[Text(value["path"])] = Text(value["uploadMode"]) == "lfs";
    return modes;
  });
}

HubResult<std::vector<LfsObject>> ReadLfsBatch(const std::string& json, const HubSubject& subject) {
  using Objects = std::vector<LfsObject>;
  return Read<object, Objects>(json, subject, "LFS batch", [&](const object& root) -> HubResult<Objects> {
    array values;
    if (root["objects"].get(values) != simdjson::SUCCESS) return Unexpected(subject, "LFS batch");
    Objects objects;
    for (const element value : values) {
      SIGHTLINE_ASSIGN_OR_RETURN(LfsObject found, LfsObjectOf(value, subject));
      objects.push_back(std::move(found));
    }
    return objects;
  });
}

HubResult<std::string> ReadCommit(const std::string& json, const HubSubject& subject) {
  return Read<object, std::string>(json, subject, "commit", [&](const object& root) -> HubResult<std::string> {
    std::string commit = Text(root["commitOid"]);
    if (!IsCommit(commit)) return Unexpected(subject, "commit");
    return commit;
  });
}

}  // namespace sightline
