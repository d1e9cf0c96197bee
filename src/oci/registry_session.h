// Asking one registry: where it is, who we are to it, and when to ask again.
#pragma once

#include "net/net.h"
#include "oci/oci.h"

namespace sightline {

// What a Bearer or Basic challenge asks for (WWW-Authenticate, RFC 9110 and the token specification of registries).
struct AuthChallenge {
  std::string scheme;  // lower case
  std::map<std::string, std::string> parameters;
};
// The first challenge that we can meet; an empty scheme when there is none.
AuthChallenge ParseChallenge(std::string_view header);

// Not thread-safe.
class RegistrySession {
 public:
  RegistrySession(const OciReference& reference, RegistryOptions options);

  // "https://host/v2/"
  const std::string& base() const { return base_; }
  const OciReference& reference() const { return reference_; }
  const RegistryOptions& options() const { return options_; }
  // The URL of something of our repository: "blobs/sha256:..".
  std::string Url(const std::string& rest) const;

  // Sends with what the registry wants to see of us; a URL of another host gets nothing of it. Asks again with a token
  // after 401 and, `attempts` times in all (0: as the options say), after a while when the registry is busy or cannot
  // be reached. `again`, when set, is called before each further try, may change the call, and says whether the last
  // try gained something: then the count begins anew.
  using Again = std::function<Result<bool>(HttpCall* call)>;
  Result<HttpAnswer> Send(HttpCall call, int attempts = 0, const Again& again = {});

  // Before try number attempt + 1: longer each time, or as long as the answer asks. kCancelled.
  Status Wait(int attempt, const HttpAnswer* answer) const;
  // The sentence for an answer that is no success.
  Error Refused(const HttpAnswer& answer, const std::string& what) const;

 private:
  Result<HttpAnswer> SendOnce(HttpCall call);
  Status Authorize(const HttpAnswer& answer);
  Status FetchToken(const AuthChallenge& challenge);

  OciReference reference_;
  RegistryOptions options_;
  std::string base_;
  std::string authorization_;  // header for our origin; secret
  std::unique_ptr<HttpClient> client_;
};

}  // namespace sightline
