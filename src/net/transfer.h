// One request on its way through libcurl.
#pragma once

#include <memory>

#include "net/net.h"

namespace sightline {

// A connection that can carry one request after another, to whatever server. One thread at a time.
class ClientConnection {
 public:
  ClientConnection();
  ~ClientConnection();

  // Follows no redirect. `call.headers` go out as they are.
  Result<HttpAnswer> Send(const HttpCall& call, const HttpClientOptions& options, const std::stop_token& stop);

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

}  // namespace sightline
